import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { printable } from "../../base/escape-text.ts";
import { parseKeyValues, toCount, toSafeInteger } from "./kernel-text.ts";

describe("printable()", () => {
  it.each([
    ["plain", "nginx", "nginx"],
    ["terminal colours", "\u001b[31mred\u001b[0m", "[31mred[0m"],
    ["line ends and tabs", "a\nb\r\tc", "abc"],
    ["reversed text", "abc\u202etxt.exe", "abctxt.exe"],
    ["zero width and byte-order marks", "a\u200bb\ufeffc", "abc"],
    ["other languages", "größe-サービス", "größe-サービス"],
    ["lone surrogates", "a\ud800b", "ab"],
  ])("cleans %s", (_, text, expected) => {
    expect(printable(text, 100)).toBe(expected);
  });

  it("truncates without splitting a character", () => {
    expect(printable("ab😀", 3)).toBe("ab");
    expect(printable("ab😀", 4)).toBe("ab😀");
    for (const text of damagedTexts(["x".repeat(500)], 10, 50)) expect(printable(text, 16).length).toBeLessThanOrEqual(16);
  });
});

describe("toCount() and toSafeInteger()", () => {
  it.each([
    [undefined, 0],
    ["", 0],
    ["12", 12],
    ["-1", 0],
    ["1e999", 0],
    ["x", 0],
  ])("toCount(%j) is %d", (text, expected) => {
    expect(toCount(text)).toBe(expected);
  });

  it("clamps numbers to the range of a column", () => {
    expect([toSafeInteger(-3), toSafeInteger(1.6), toSafeInteger(2 ** 70)]).toEqual([0, 2, Number.MAX_SAFE_INTEGER]);
  });
});

describe("parseKeyValues()", () => {
  it("matches whole keys at the start of a line", () => {
    const text = "total_inactive_file 5\ninactive_file 7\nnot inactive_anon 9\n";
    expect([...parseKeyValues(text, ["inactive_file", "inactive_anon"])]).toEqual([["inactive_file", 7]]);
  });
});
