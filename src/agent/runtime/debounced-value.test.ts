import { expect, it } from "vitest";
import { DebouncedValue } from "./debounced-value.ts";

it("DebouncedValue is due when another value has been stable for the hold time", () => {
  const value = new DebouncedValue(10);
  expect(value.isDue("a", 0)).toBe(false);
  expect(value.isDue("a", 100)).toBe(false);
  value.markReported("a");
  expect(value.isDue("a", 200)).toBe(false);
  expect(value.isDue("b", 210)).toBe(false);
  expect(value.isDue("b", 219)).toBe(false);
  expect(value.isDue("b", 220)).toBe(true);
  value.markReported("b");
  expect(value.isDue("b", 230)).toBe(false);
});

it("DebouncedValue is never due while the value flips", () => {
  const value = new DebouncedValue(10);
  value.markReported("a");
  for (let at = 0; at < 100; at += 5) expect(value.isDue(at % 10 === 0 ? "a" : "b", at)).toBe(false);
});
