import { expect, it } from "vitest";
import { remembered } from "./remembered.ts";

it("remembered() creates a value once per key, including null and 0", () => {
  const memory = new Map<string, number | null>();
  const made: string[] = [];
  const get = (key: string, value: number | null): number | null =>
    remembered(memory, key, () => {
      made.push(key);
      return value;
    });
  expect([get("a", 1), get("a", 2), get("b", null), get("b", 3), get("c", 0), get("c", 4)]).toEqual([1, 1, null, null, 0, 0]);
  expect(made).toEqual(["a", "b", "c"]);
});
