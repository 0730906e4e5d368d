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

  it("is quiet below 5,000 rows a second, whatever adds up over time", () => {
    const { load, changes } = watch();
    for (let second = 0; second < 20; second++) {
      for (let request = 0; request < 40; request++) load.took(100);
      vi.advanceTimersByTime(1_000);
    }
    expect(changes).toEqual([]);
  });

  it.each([
    ["many rows", 10, 500],
    ["many requests", 500, 1],
  ])("is busy with %s, once, and quiet again a minute after the last of it", (_, requests, rows) => {
    const { load, changes } = watch();
    for (let second = 0; second < 3; second++) {
      for (let request = 0; request < requests; request++) load.took(rows);
      vi.advanceTimersByTime(1_000);
    }
    expect(changes).toEqual([true]);
    expect(load.isBusy).toBe(true);
    vi.advanceTimersByTime(58_000);
    expect(changes).toEqual([true]);
    vi.advanceTimersByTime(2_000);
    expect(changes).toEqual([true, false]);
  });

  it("reports nothing after its end", () => {
    const { load, changes } = watch();
    load.took(10_000);
    load[Symbol.dispose]();
    vi.advanceTimersByTime(120_000);
    expect(changes).toEqual([true]);
  });
});
