import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Beat } from "./beat.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("Beat", () => {
  it("calls all that listen twice a second, with one timer, in the order in which they came", () => {
    using beat = new Beat(10_000);
    const calls: string[] = [];
    beat.on(() => calls.push("a"));
    vi.advanceTimersByTime(200);
    beat.on(() => calls.push("b"));
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(800);
    expect(calls).toEqual(["a", "b", "a", "b"]);
  });

  it("beats five times in a short window, and follows when that changes", () => {
    using beat = new Beat(1_000);
    let calls = 0;
    beat.on(() => calls++);
    vi.advanceTimersByTime(1_000);
    expect(calls).toBe(5);
    beat.setWindow(500);
    vi.advanceTimersByTime(1_000);
    expect(calls).toBe(15);
  });

  it("is not put off by a window that stays as it is", () => {
    using beat = new Beat(10_000);
    let calls = 0;
    beat.on(() => calls++);
    vi.advanceTimersByTime(400);
    beat.setWindow(20_000);
    vi.advanceTimersByTime(100);
    expect(calls).toBe(1);
  });

  it("no longer calls who has left, nor anybody after its end", () => {
    const beat = new Beat(10_000);
    const calls: string[] = [];
    const left = beat.on(() => calls.push("left"));
    beat.on(() => calls.push("stays"));
    left[Symbol.dispose]();
    vi.advanceTimersByTime(500);
    beat[Symbol.dispose]();
    vi.advanceTimersByTime(5_000);
    expect(calls).toEqual(["stays"]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
