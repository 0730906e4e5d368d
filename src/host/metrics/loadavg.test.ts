import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { hasSaneNumbers } from "../host-tree.fixture.ts";
import { parseLoadAverage, parseUptimeS } from "./loadavg.ts";

describe("parseLoadAverage() and parseUptimeS()", () => {
  it("read what the kernel prints", () => {
    expect(parseLoadAverage("0.48 12.77 0.41 3/96 5049\n")).toEqual({ load1m: 0.48, load5m: 12.77, load15m: 0.41 });
    expect(parseUptimeS("1759.84 3400.10\n")).toBe(1759.84);
  });

  it("tolerate malformed input", () => {
    for (const text of damagedTexts(["0.48 12.77 0.41 3/96 5049\n"], 4)) {
      expect(hasSaneNumbers([parseLoadAverage(text), parseUptimeS(text)]), JSON.stringify(text)).toBe(true);
    }
  });
});
