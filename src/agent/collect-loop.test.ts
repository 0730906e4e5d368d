import { describe, expect, it, vi } from "vitest";
import { systemClock } from "../base/clock.ts";
import { createLogger, type LogRecord, silentLogger } from "../base/log.ts";
import { Alarm, runCollectLoop } from "./collect-loop.ts";

describe("runCollectLoop()", () => {
  it("collects at once, again when the alarm rings, and ends when aborted", async () => {
    const stop = new AbortController();
    const alarm = new Alarm();
    let count = 0;
    const collect = async (): Promise<void> => {
      count++;
    };
    const loop = runCollectLoop(
      { name: "x", intervalMs: () => 3_600_000, collect, alarm, clock: systemClock, log: silentLogger },
      stop.signal,
    );
    await vi.waitFor(() => expect(count).toBe(1));
    alarm.ring();
    await vi.waitFor(() => expect(count).toBe(2));
    stop.abort();
    await loop;
    expect(count).toBe(2);
  });

  it("collects again at once when the alarm rang during a collection", async () => {
    const stop = new AbortController();
    const alarm = new Alarm();
    let count = 0;
    const collect = async (): Promise<void> => {
      if (++count === 1) alarm.ring();
    };
    const loop = runCollectLoop(
      { name: "x", intervalMs: () => 3_600_000, collect, alarm, clock: systemClock, log: silentLogger },
      stop.signal,
    );
    await vi.waitFor(() => expect(count).toBe(2));
    stop.abort();
    await loop;
  });

  it("continues after a failure, and logs it once", async () => {
    const records: LogRecord[] = [];
    const stop = new AbortController();
    let count = 0;
    const collect = async (): Promise<void> => {
      if (++count < 4) throw new Error("disk full");
      stop.abort();
    };
    const log = createLogger("t", "debug", (record) => records.push(record));
    await runCollectLoop({ name: "rows", intervalMs: () => 0, collect, clock: systemClock, log }, stop.signal);
    expect(records.map(({ level, message }) => `${level} ${message}`)).toEqual([
      "error Cannot collect rows: disk full; retrying",
      "debug Cannot collect rows: disk full; retrying",
      "debug Cannot collect rows: disk full; retrying",
      "info Storing rows again",
    ]);
  });
});
