import { describe, expect, it } from "vitest";
import type { TimeRange } from "../../model/diagnosis.ts";
import { timesOf } from "./diagnosis-times.ts";

const minuteMs = 60_000;
const nowMs = Date.UTC(2026, 0, 2, 12);
const since = 5 * minuteMs;
const onset =
  (onsetMs: number | null, seenSinceMs = 0, earlier: TimeRange[] = [], endMs: number | null = null) =>
  () =>
    Promise.resolve({ onsetMs, endMs, earlier, seenSinceMs });

describe("timesOf()", () => {
  it("starts at the onset and compares with the hour that ended half a minute before it", async () => {
    const fromMs = nowMs - 12 * minuteMs;
    expect(await timesOf({ since }, nowMs, onset(fromMs))).toEqual({
      before: [{ fromMs: fromMs - 60.5 * minuteMs, untilMs: fromMs - minuteMs / 2 }],
      after: { fromMs, untilMs: nowMs },
      isOnsetFound: true,
      isOver: false,
    });
  });

  it("ends with trouble that is over, so that good minutes after it do not dilute it", async () => {
    const [fromMs, endMs] = [nowMs - 3 * minuteMs, nowMs - 2 * minuteMs];
    const found = await timesOf({ since }, nowMs, onset(fromMs, 0, [], endMs));
    expect(found).toMatchObject({ after: { fromMs, untilMs: endMs }, isOver: true });
  });

  it("uses the last minutes without an onset, and fewer in a young colony", async () => {
    expect((await timesOf({ since }, nowMs, onset(null))).after.fromMs).toBe(nowMs - since);
    const young = await timesOf({ since }, nowMs, onset(null, nowMs - 6 * minuteMs));
    expect(young.after.fromMs).toBe(nowMs - 2 * minuteMs);
    expect(young.before).toEqual([{ fromMs: nowMs - 6 * minuteMs, untilMs: nowMs - 2.5 * minuteMs }]);
  });

  it("returns whole milliseconds for any start of the colony", async () => {
    const { after, before } = await timesOf({ since }, nowMs, onset(null, nowMs - 100_000));
    expect([after, ...before].flatMap(({ fromMs, untilMs }) => [fromMs, untilMs]).every(Number.isInteger)).toBe(true);
  });

  it("excludes earlier trouble from the baseline, unless too little is left", async () => {
    const fromMs = nowMs - 2 * minuteMs;
    const trouble = { fromMs: nowMs - 20 * minuteMs, untilMs: nowMs - 10 * minuteMs };
    const { before } = await timesOf({ since }, nowMs, onset(fromMs, nowMs - 40 * minuteMs, [trouble]));
    expect(before).toEqual([
      { fromMs: nowMs - 40 * minuteMs, untilMs: trouble.fromMs },
      { fromMs: trouble.untilMs, untilMs: fromMs - minuteMs / 2 },
    ]);
    const long = { fromMs: nowMs - 39 * minuteMs, untilMs: nowMs - 4 * minuteMs };
    expect((await timesOf({ since }, nowMs, onset(fromMs, nowMs - 40 * minuteMs, [long]))).before).toHaveLength(1);
  });

  it("has no baseline when no data precedes the onset", async () => {
    expect((await timesOf({ since }, nowMs, onset(null, nowMs))).before).toEqual([]);
  });

  it("reads between and baseline as durations ago or times", async () => {
    const times = await timesOf({ since, between: "40m..25m", baseline: "2026-01-02T10:00:00Z..2026-01-02T11:00:00Z" }, nowMs, onset(null));
    expect(times.after).toEqual({ fromMs: nowMs - 40 * minuteMs, untilMs: nowMs - 25 * minuteMs });
    expect(times.before).toEqual([{ fromMs: nowMs - 120 * minuteMs, untilMs: nowMs - 60 * minuteMs }]);
  });

  it.each(["yesterday", "25m..40m", "40m", "a..b..c"])("rejects %j", async (between) => {
    await expect(timesOf({ since, between }, nowMs, onset(null))).rejects.toThrow(`Cannot use between "${between}"`);
  });
});
