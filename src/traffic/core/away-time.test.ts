import { describe, expect, it } from "vitest";
import { AwayTime } from "./away-time.ts";

describe("AwayTime", () => {
  it("counts from the last window, over several tries, until the hooks are attached", () => {
    const away = new AwayTime(0);
    expect(away.back(400)).toEqual({ fromMs: 0, seconds: 1 });
    away.seen(10_000);
    expect(away.still(13_700)).toEqual({ fromMs: 10_000, seconds: 3 });
    expect(away.still(13_800)).toBeNull();
    expect(away.back(15_200)).toEqual({ fromMs: 13_000, seconds: 3 });
    expect(away.back(16_000)).toBeNull();
  });

  it("counts nothing while nothing is watched on purpose", () => {
    const away = new AwayTime(0);
    away.none(5_000);
    expect(away.back(60_000)).toBeNull();
    away.begin(60_000);
    expect(away.back(61_500)).toEqual({ fromMs: 60_000, seconds: 2 });
  });
});
