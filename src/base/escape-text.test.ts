import { expect, it } from "vitest";
import { escapeJsonText, escapeText } from "./escape-text.ts";

it.each([
  ["plain text", "plain text"],
  ["", ""],
  ["clear \u001b[2J screen", "clear \\x1b[2J screen"],
  ["new\nline\ttab\rreturn", "new\\nline\\ttab\\rreturn"],
  ["bell\u0007 nul\u0000 del\u007f csi\u009b", "bell\\x07 nul\\x00 del\\x7f csi\\x9b"],
  ["gpj.\u202eexe", "gpj.\\u202eexe"],
  ["isolate\u2066 mark\u200f bom\ufeff", "isolate\\u2066 mark\\u200f bom\\ufeff"],
  ["line\u2028separator", "line\\u2028separator"],
  ["lone \ud800 surrogate", "lone \\ud800 surrogate"],
  ["日本語 👩‍💻 é", "日本語 👩‍💻 é"],
])("escapeText(%j)", (text, expected) => {
  expect(escapeText(text)).toBe(expected);
});

it("escapeText() leaves no control sequence, whatever the input", () => {
  let seed = 42;
  const random = (): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed / 2 ** 31;
  };
  for (let round = 0; round < 500; round++) {
    const text = String.fromCharCode(...Array.from({ length: 20 }, () => Math.floor(random() * (round % 2 ? 0x100 : 0x10000))));
    expect(escapeText(text)).not.toMatch(/[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u);
  }
});

it("escapeJsonText() keeps JSON readable by a parser", () => {
  const value = { name: "a\u009b\u202e\u2028\u007f\u001b\nb", list: ["日本"] };
  const text = escapeJsonText(JSON.stringify(value, undefined, 2));
  expect(JSON.parse(text)).toEqual(value);
  expect(text.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e\u2028]/u);
});
