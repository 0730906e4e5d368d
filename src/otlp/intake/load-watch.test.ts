import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LoadWatch } from "./load-watch.ts";

describe("LoadWatch", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function watch(): { load: LoadWatch; changes: boolean[] } {
    const changes: boolean[] = [];
    const clock = { monotonicMs: () => performance.now() };
    return { load: new LoadWatch({ clock, onChange: (isBusy) => changes.push(isBusy) }), changes };
  }

  it("reports no load below 5,000 rows a second, regardless of the total", () => {
    const { load, changes } = watch();
    for (let second = 0; second < 20; second++) {
      for (let request = 0; request < 40; request++) load.count(100);
      vi.advanceTimersByTime(1_000);
    }
    expect(changes).toEqual([]);
  });

  it.each([
    ["many rows", 10, 500],
    ["many requests", 500, 1],
  ])("reports load once for %s, and its end a minute later", (_, requests, rows) => {
    const { load, changes } = watch();
    for (let second = 0; second < 3; second++) {
      for (let request = 0; request < requests; request++) load.count(rows);
      vi.advanceTimersByTime(1_000);
    }
    expect(changes).toEqual([true]);
    expect(load.isBusy).toBe(true);
    vi.advanceTimersByTime(58_000);
    expect(changes).toEqual([true]);
    vi.advanceTimersByTime(2_000);
    expect(changes).toEqual([true, false]);
  });

  it("reports nothing after its disposal", () => {
    const { load, changes } = watch();
    load.count(10_000);
    load[Symbol.dispose]();
    vi.advanceTimersByTime(120_000);
    expect(changes).toEqual([true]);
  });
});
