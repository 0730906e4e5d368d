import { expect, it } from "vitest";
import { padText, textWidth, truncateText } from "./text-width.ts";

it.each([
  ["", 0],
  ["abc", 3],
  ["日本語", 6],
  ["한국", 4],
  ["é", 1],
  ["e\u0301", 1],
  ["👩‍💻", 2],
  ["🇩🇪", 2],
  ["❤️", 2],
  ["ｆｕｌｌ", 8],
  ["…", 1],
  ["▁▂█", 3],
])("textWidth(%j) is %i", (text, width) => {
  expect(textWidth(text)).toBe(width);
});

it.each([
  ["abcdef", 6, "abcdef"],
  ["abcdef", 4, "abc…"],
  ["日本語", 6, "日本語"],
  ["日本語", 5, "日本…"],
  ["日本語", 4, "日…"],
  ["👩‍💻👩‍💻", 3, "👩‍💻…"],
  ["abc", 1, "…"],
  ["abc", 0, ""],
])("truncateText(%j, %i) is %j", (text, width, expected) => {
  expect(truncateText(text, width)).toBe(expected);
  expect(textWidth(truncateText(text, width))).toBeLessThanOrEqual(width);
});

it("padText() counts cells, not characters", () => {
  expect(padText("日本", 6, "left")).toBe("日本  ");
  expect(padText("5", 3, "right")).toBe("  5");
  expect(padText("long", 2, "left")).toBe("long");
});
