import { expect, it } from "vitest";
import { matcherOf } from "./name-pattern.ts";

it.for([
  ["payments", "payments", true],
  ["payments", "payments-2", false],
  ["pay*", "payments", true],
  ["*ments", "payments", true],
  ["/opt/*/bin/*", "/opt/vault/bin/vault", true],
  ["/opt/*/bin/*", "/opt/bin/vault", false],
  ["a*b*c", "abc", true],
  ["a*bc", "abbc", true],
  ["a*a", "a", false],
  ["a*b*b", "ab", false],
  ["*", "", true],
  ["a.c", "abc", false],
  ["(x", "(x", true],
  ["**x**", "axb", true],
] as const)("matcherOf([%j])(%j) is %j", ([pattern, name, isMatch]) => {
  expect(matcherOf(["nothing", pattern])(name)).toBe(isMatch);
});

it("matcherOf([]) matches nothing", () => {
  expect(matcherOf([])("")).toBe(false);
});

it("matcherOf() stays linear for a pattern with many stars", () => {
  expect(matcherOf([`${"a*".repeat(100)}b`])("a".repeat(50_000))).toBe(false);
});
