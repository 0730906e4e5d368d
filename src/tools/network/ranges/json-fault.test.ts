import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/seeded-random.fixture.ts";
import { findJsonFault } from "./json-fault.ts";

describe("findJsonFault()", () => {
  it.each([
    ['{"a":[1,2,],"b":3}', 10],
    ['{"a":1,}', 7],
    ['{"a" 1}', 5],
    ["{a:1}", 1],
    ['["x" "y"]', 5],
    ['{"a":tru}', 5],
    ["[1] 2", 4],
    ['["\\q"]', 2],
    ['["a\u0001b"]', 3],
    ['["\\u12g4"]', 2],
    ["[1}", 2],
    ['{"a":[1,2', 9],
    ['{"a":"cut of', 12],
    ["", 0],
    ["[-]", 1],
    ["[01]", 2],
  ])("of %j is %i", (text, at) => {
    expect(() => JSON.parse(text)).toThrow();
    expect(findJsonFault(text)).toBe(at);
  });

  it("is the end of the longest valid prefix, for seeded mutations", () => {
    const random = new SeededRandom(77);
    const valid = JSON.stringify({ a: [1, -2.5e3, true, null, 'x\\u00e9"y'], b: { c: [], d: {}, e: [[{ f: "" }]] } });
    let broken = 0;
    for (let round = 0; round < 3_000; round++) {
      const at = random.below(valid.length);
      const text = valid.slice(0, at) + random.pick(["", ",", "]", "}", '"', "x", "1", ":", "\u0000"]) + valid.slice(at + random.below(2));
      if (isJson(text)) continue;
      broken++;
      const fault = findJsonFault(text);
      expect(fault).toBeGreaterThanOrEqual(0);
      expect(fault).toBeLessThanOrEqual(text.length);
      // Whatever stands before the fault did no harm: it lies at or behind the place of the change, one token back at the most.
      expect(fault).toBeGreaterThanOrEqual(Math.min(at, text.length) - 12);
    }
    expect(broken).toBeGreaterThan(1_000);
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false; // that is the question
  }
}
