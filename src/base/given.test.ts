import { expect, it } from "vitest";
import { given } from "./given.ts";

it("given() omits undefined values and nothing else", () => {
  const parts = given({ a: undefined, b: null, c: 0, d: "", e: false, f: [1] });
  expect(Object.keys(parts)).toEqual(["b", "c", "d", "e", "f"]);
  expect(parts).toEqual({ b: null, c: 0, d: "", e: false, f: [1] });
});
