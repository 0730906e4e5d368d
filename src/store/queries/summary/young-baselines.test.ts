import { describe, expect, it } from "vitest";
import { type YoungWindow, youngBaseline } from "./young-baselines.ts";

const windowOf = (more: Partial<YoungWindow> = {}): YoungWindow => ({
  requests: 100,
  errors: 0,
  durationUs: 100 * 3_000,
  p50Us: 3_000,
  p95Us: 4_000,
  ...more,
});
const times = (count: number, more: Partial<YoungWindow> = {}): YoungWindow[] => Array.from({ length: count }, () => windowOf(more));

describe("youngBaseline()", () => {
  it("ends the baseline where a fault begins, however long it lasts", () => {
    const failing = youngBaseline([...times(3), ...times(60, { errors: 25 })], 11);
    expect(failing).toMatchObject({ isSettled: false, requests: 300, errorRatio: 0, windows: 11 });
    const slow = youngBaseline([...times(3), ...times(60, { p50Us: 60_000, p95Us: 65_000 })], 11);
    expect(slow).toMatchObject({ requests: 300, p50Us: 3_000, p95Us: 4_000 });
  });

  it("treats behaviour since the first window as usual", () => {
    const mixed = Array.from({ length: 30 }, (_, index) => windowOf({ errors: index % 3 === 0 ? 6 : 3 }));
    expect(youngBaseline(mixed, 5)).toMatchObject({ requests: 3_000, errorRatio: 0.04 });
  });

  it("does not mistake two bad windows, or a slow start, for a fault", () => {
    expect(youngBaseline([...times(4), ...times(2, { errors: 50 }), ...times(20)], 5)?.requests).toBe(2_600);
    expect(youngBaseline([...times(3, { p95Us: 300_000 }), ...times(20)], 4)).toMatchObject({ requests: 2_300, p95Us: 4_000 });
  });

  it("returns null for one window, and ignores sparse windows", () => {
    expect(youngBaseline([], 0)).toBeNull();
    expect(youngBaseline(times(1), 1)).toBeNull();
    expect(youngBaseline([windowOf({ requests: 1, p95Us: 90_000 }), windowOf()], 1)).toBeNull();
    expect(youngBaseline([windowOf({ requests: 1, p95Us: 90_000 }), ...times(2)], 1)).toMatchObject({ requests: 200, p95HighUs: 4_000 });
  });
});
