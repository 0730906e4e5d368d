import { describe, expect, it } from "vitest";
import { nextDrainDelayMs } from "./drain-pace.ts";

const ring = 4 << 20;

describe("nextDrainDelayMs()", () => {
  it("looks again at once when a quarter was taken", () => {
    expect(nextDrainDelayMs(ring / 4 + 1, ring, 100)).toBe(0);
  });

  it("looks every 20 ms under load, and keeps its pace for a little", () => {
    expect(nextDrainDelayMs(ring / 32, ring, 100)).toBe(20);
    expect(nextDrainDelayMs(500, ring, 50)).toBe(50);
    expect(nextDrainDelayMs(500, ring, 0)).toBe(20);
  });

  it("slows down while nothing comes, further for a ring that can wait", () => {
    const delays = (ringBytes: number): number[] => {
      const found: number[] = [];
      for (let delay = 20; found.length < 7; ) found.push((delay = nextDrainDelayMs(0, ringBytes, delay)));
      return found;
    };
    expect(delays(ring)).toEqual([30, 45, 67.5, 100, 100, 100, 100]);
    expect(delays(2 * ring)).toEqual([30, 45, 67.5, 101.25, 151.875, 200, 200]);
  });
});
