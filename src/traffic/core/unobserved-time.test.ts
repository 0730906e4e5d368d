import { describe, expect, it } from "vitest";
import { UnobservedTime } from "./unobserved-time.ts";

describe("UnobservedTime", () => {
  it("counts from the last window, over several restarts, until the hooks are attached", () => {
    const unobserved = new UnobservedTime(0);
    expect(unobserved.takeAtAttach(400)).toEqual({ fromMs: 0, seconds: 1 });
    unobserved.observed(10_000);
    expect(unobserved.takeWhileDown(13_700)).toEqual({ fromMs: 10_000, seconds: 3 });
    expect(unobserved.takeWhileDown(13_800)).toBeNull();
    expect(unobserved.takeAtAttach(15_200)).toEqual({ fromMs: 13_000, seconds: 3 });
    expect(unobserved.takeAtAttach(16_000)).toBeNull();
  });

  it("counts nothing while observation is suspended", () => {
    const unobserved = new UnobservedTime(0);
    unobserved.suspend(5_000);
    expect(unobserved.takeAtAttach(60_000)).toBeNull();
    unobserved.resume(60_000);
    expect(unobserved.takeAtAttach(61_500)).toEqual({ fromMs: 60_000, seconds: 2 });
  });
});
