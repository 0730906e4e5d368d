import { describe, expect, it } from "vitest";
import { timesOf } from "./diagnosis-times.ts";

const minuteMs = 60_000;
const nowMs = Date.UTC(2026, 0, 2, 12);
const since = 5 * minuteMs;
const onset =
  (onsetMs: number | null, seenSinceMs = 0) =>
  () =>
    Promise.resolve({ onsetMs, seenSinceMs });

describe("timesOf()", () => {
  it("begins at the onset and compares with the hour that ended a minute before", async () => {
    const fromMs = nowMs - 12 * minuteMs;
    expect(await timesOf({ since }, nowMs, onset(fromMs))).toEqual({
      before: [{ fromMs: fromMs - 61 * minuteMs, untilMs: fromMs - minuteMs }],
      after: { fromMs, untilMs: nowMs },
      isOnsetFound: true,
    });
  });

  it("takes the last minutes without an onset, and fewer in a young colony", async () => {
    expect((await timesOf({ since }, nowMs, onset(null))).after.fromMs).toBe(nowMs - since);
    const young = await timesOf({ since }, nowMs, onset(null, nowMs - 6 * minuteMs));
    expect(young.after.fromMs).toBe(nowMs - 2 * minuteMs);
    expect(young.before).toEqual([{ fromMs: nowMs - 6 * minuteMs, untilMs: nowMs - 3 * minuteMs }]);
  });

  it("has nothing to compare with when nothing was seen before", async () => {
    expect((await timesOf({ since }, nowMs, onset(null, nowMs))).before).toEqual([]);
  });

  it("reads between and baseline as durations ago or times", async () => {
    const times = await timesOf({ since, between: "40m..25m", baseline: "2026-01-02T10:00:00Z..2026-01-02T11:00:00Z" }, nowMs, onset(null));
    expect(times.after).toEqual({ fromMs: nowMs - 40 * minuteMs, untilMs: nowMs - 25 * minuteMs });
    expect(times.before).toEqual([{ fromMs: nowMs - 120 * minuteMs, untilMs: nowMs - 60 * minuteMs }]);
  });

  it.each(["yesterday", "25m..40m", "40m", "a..b..c"])("refuses %j", async (between) => {
    await expect(timesOf({ since, between }, nowMs, onset(null))).rejects.toThrow(`Cannot use between "${between}"`);
  });
});
