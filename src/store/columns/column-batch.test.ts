import { expect, test } from "vitest";
import { type SampleRow, sample, sampleRow } from "../store.fixture.ts";
import { batchFromRows, setInt64 } from "./column-batch.ts";

test.for<[string, unknown, string]>([
  ["label", null, "it must not be null"],
  ["label", undefined, "expected a string"],
  ["label", 5, "expected a string"],
  ["label", "x".repeat(65_537), "longer than 65536 bytes"],
  ["note", undefined, "expected a string"],
  ["amount", 1.5, "expected a safe integer"],
  ["amount", 2 ** 53, "expected a safe integer"],
  ["amount", "1", "expected a safe integer"],
  ["ratio", Number.NaN, "expected a finite number"],
  ["ratio", Number.POSITIVE_INFINITY, "expected a finite number"],
  ["flag", 1, "expected true or false"],
  ["seen", 0.5, "expected a safe integer"],
  ["counts", 3, "expected an array"],
  ["counts", [1, -1], "integers from 0"],
  ["counts", [4_294_967_296], "integers from 0"],
  ["counts", [0.5], "integers from 0"],
  ["counts", ["1"], "integers from 0"],
  ["counts", [null], "integers from 0"],
  ["counts", [Number.NaN], "integers from 0"],
  ["counts", new Array<number>(16_385).fill(0), "more than 16384 elements"],
  ["at", 1.5, "expected a safe integer"],
  ["mono_ms", null, "it must not be null"],
])("batchFromRows() rejects %s = %j", ([column, value, why]) => {
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
