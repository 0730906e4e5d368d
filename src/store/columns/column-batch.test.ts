import { expect, test } from "vitest";
import { type SampleRow, sample, sampleRow } from "../store.fixture.ts";
import { batchFromRows, setInt64 } from "./column-batch.ts";

test.for<[string, unknown, string]>([
  ["label", null, "it may not be null"],
  ["label", undefined, "a string is wanted"],
  ["label", 5, "a string is wanted"],
  ["label", "x".repeat(65_537), "longer than 65536 bytes"],
  ["note", undefined, "a string is wanted"],
  ["amount", 1.5, "a safe integer is wanted"],
  ["amount", 2 ** 53, "a safe integer is wanted"],
  ["amount", "1", "a safe integer is wanted"],
  ["ratio", Number.NaN, "a finite number is wanted"],
  ["ratio", Number.POSITIVE_INFINITY, "a finite number is wanted"],
  ["flag", 1, "true or false is wanted"],
  ["seen", 0.5, "a safe integer is wanted"],
  ["counts", 3, "an array is wanted"],
  ["counts", [1, -1], "integers from 0"],
  ["counts", [4_294_967_296], "integers from 0"],
  ["counts", [0.5], "integers from 0"],
  ["counts", ["1"], "integers from 0"],
  ["counts", [null], "integers from 0"],
  ["counts", [Number.NaN], "integers from 0"],
  ["counts", new Array<number>(16_385).fill(0), "more than 16384 elements"],
  ["at", 1.5, "a safe integer is wanted"],
  ["mono_ms", null, "it may not be null"],
])("batchFromRows() refuses %s = %j", ([column, value, why]) => {
  const row = { ...sampleRow(1, 1), [column]: value } as SampleRow;
  expect(() => batchFromRows(sample, [sampleRow(0, 1), row])).toThrow(why);
  expect(() => batchFromRows(sample, [row])).toThrow('Cannot store a row of "sample"');
});

test.for([0, 1, -1, 4_294_967_295, 4_294_967_296, -4_294_967_297, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER])(
  "setInt64() writes %i",
  (value) => {
    const view = new DataView(new ArrayBuffer(8));
    setInt64(view, 0, value);
    expect(view.getBigInt64(0, true)).toBe(BigInt(value));
  },
);
