import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { PollTimer } from "./poll-timer.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("PollTimer", () => {
  it("calls all listeners twice a second, with one timer, in the order they were added", () => {
    using timer = new PollTimer(10_000);
    const calls: string[] = [];
    timer.onTick(() => calls.push("a"));
    vi.advanceTimersByTime(200);
    timer.onTick(() => calls.push("b"));
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(800);
    expect(calls).toEqual(["a", "b", "a", "b"]);
  });

  it("ticks five times in a short window, and adapts when the window changes", () => {
    using timer = new PollTimer(1_000);
    let calls = 0;
    timer.onTick(() => calls++);
    vi.advanceTimersByTime(1_000);
    expect(calls).toBe(5);
    timer.setWindow(500);
    vi.advanceTimersByTime(1_000);
    expect(calls).toBe(15);
  });

  it("does not restart its interval when the new window needs the same one", () => {
    using timer = new PollTimer(10_000);
    let calls = 0;
    timer.onTick(() => calls++);
    vi.advanceTimersByTime(400);
    timer.setWindow(20_000);
    vi.advanceTimersByTime(100);
    expect(calls).toBe(1);
  });

  it("stops calling a disposed listener, and all of them after its own disposal", () => {
    const timer = new PollTimer(10_000);
    const calls: string[] = [];
    const removed = timer.onTick(() => calls.push("removed"));
    timer.onTick(() => calls.push("stays"));
    removed[Symbol.dispose]();
    vi.advanceTimersByTime(500);
    timer[Symbol.dispose]();
    vi.advanceTimersByTime(5_000);
    expect(calls).toEqual(["stays"]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
