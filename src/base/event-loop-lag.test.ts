import { expect, it, vi } from "vitest";
import { EventLoopLag } from "./event-loop-lag.ts";

it("EventLoopLag reports how long a block made timers late, once", async () => {
  const lag = new EventLoopLag();
  try {
    expect(lag.takeMaxSeconds()).toBe(0);
    const untilMs = performance.now() + 700;
    while (performance.now() < untilMs);
    // Before the loop turned, and not again after that.
    expect(lag.takeMaxSeconds()).toBeGreaterThan(0.4);
    await vi.waitFor(() => expect(lag.takeMaxSeconds()).toBeLessThan(0.4));
  } finally {
    lag.stop();
  }
});

it("EventLoopLag keeps the most until it is read, and stops when nothing reads it", () => {
  vi.useFakeTimers();
  let lateMs = 0;
  let startMs = 0;
  const lag = new EventLoopLag(() => Date.now() - startMs + lateMs);
  startMs = Date.now();
  try {
    lag.takeMaxSeconds();
    lateMs = 300;
    vi.advanceTimersByTime(200);
    vi.advanceTimersByTime(1_000);
    expect(lag.takeMaxSeconds()).toBeCloseTo(0.3);
    expect(lag.takeMaxSeconds()).toBeCloseTo(0);
    vi.advanceTimersByTime(6 * 60_000);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    lag.stop();
    vi.useRealTimers();
  }
});
