import { expect, test } from "vitest";
import { guessRowBytes, planByteRetention } from "./byte-retention.ts";

const table = (name: string, rows: number, rowBytes = 10, weight = 1): Parameters<typeof planByteRetention>[0][number] => ({
  name,
  rows,
  rowBytes,
  weight,
  minRows: 0,
});
const plan = (...args: Parameters<typeof planByteRetention>): Record<string, number> => Object.fromEntries(planByteRetention(...args));

test("planByteRetention() removes nothing when all data is within the limit", () => {
  expect(plan([table("a", 100)], 1_000, 1_000)).toEqual({});
  expect(plan([table("a", 0)], 1_000, 10)).toEqual({});
  expect(plan([], 1_000, 10)).toEqual({});
});

test("planByteRetention() scales its estimates to the real size of the file", () => {
  expect(plan([table("a", 100, 10)], 5_000, 2_500)).toEqual({ a: 50 });
  expect(plan([table("a", 100, 999)], 5_000, 2_500)).toEqual({ a: 50 });
});

test("planByteRetention() cuts the largest tables and keeps those within their share", () => {
  expect(plan([table("big", 1_000), table("small", 10)], 10_100, 5_100)).toEqual({ big: 500 });
});

test("planByteRetention() shares by weight", () => {
  expect(plan([table("a", 1_000, 10, 3), table("b", 1_000, 10, 1)], 20_000, 8_000)).toEqual({ a: 400, b: 800 });
});

test("planByteRetention() can remove everything", () => {
  expect(plan([table("a", 10), table("b", 20)], 300, 0)).toEqual({ a: 10, b: 20 });
});

test("planByteRetention() keeps rows that cannot be freed", () => {
  expect(
    plan(
      [
        { ...table("a", 100), minRows: 60 },
        { ...table("b", 20), minRows: 60 },
      ],
      1_200,
      0,
    ),
  ).toEqual({ a: 40 });
});

test("guessRowBytes() grows with the columns", () => {
  expect(guessRowBytes(["BIGINT", "VARCHAR", "BOOLEAN", "UINTEGER[]"])).toBe(8 + 24 + 1 + 96);
});
