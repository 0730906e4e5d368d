import { expect, it } from "vitest";
import { closest } from "./closest.ts";

it.each([
  ["stauts", "status"],
  ["statsu", "status"],
  ["agnet", "agent"],
  ["colonny", "colony"],
  ["STATUS", "status"],
  ["zzz", undefined],
  ["", undefined],
  ["x", undefined],
])("closest() of %j is %j", (word, expected) => {
  expect(closest(word, ["agent", "colony", "config", "status", "services"])).toBe(expected);
});

it("closest() prefers the nearer candidate", () => {
  expect(closest("servic", ["serve", "service"])).toBe("service");
});
