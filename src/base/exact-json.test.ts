import { describe, expect, it } from "vitest";
import { parseExactJson } from "./exact-json.ts";

describe("parseExactJson()", () => {
  it("keeps the digits of integers that a double cannot represent", () => {
    expect(parseExactJson('{"id":9223372036854775807,"low":-9223372036854775808,"list":[1234567890123456789]}')).toEqual({
      id: "9223372036854775807",
      low: "-9223372036854775808",
      list: ["1234567890123456789"],
    });
  });

  it("keeps numbers that a double can represent, fractions, exponents and strings", () => {
    const value = {
      safe: 9_007_199_254_740_991,
      fraction: 0.123_456_789_012_345_6,
      power: 1.234_567_890_123_456e300,
      text: '1234567890123456789 \\" 9223372036854775807',
      "key 9223372036854775807": true,
    };
    expect(parseExactJson(JSON.stringify(value))).toEqual(value);
  });

  it("rejects text that is not valid JSON", () => {
    expect(() => parseExactJson('{"id":9223372036854775807')).toThrow(SyntaxError);
    expect(() => parseExactJson('"9223372036854775807')).toThrow(SyntaxError);
  });
});
