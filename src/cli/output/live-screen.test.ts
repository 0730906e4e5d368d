import { expect, test } from "vitest";
import { cutStyled } from "./live-screen.ts";

test.each([
  ["short", 10, "short"],
  ["exactly10!", 10, "exactly10!"],
  ["much too long", 4, "much\u001b[0m"],
  ["\u001b[1mbold\u001b[22m and more", 6, "\u001b[1mbold\u001b[22m a\u001b[0m"],
  ["\u001b[1mbold\u001b[22m", 4, "\u001b[1mbold\u001b[22m"],
  ["界界界", 5, "界界\u001b[0m"],
  ["", 5, ""],
])("cutStyled(%j, %d) counts cells, not colours", (line, width, expected) => {
  expect(cutStyled(line, width)).toBe(expected);
});
