/** Golden bytes of `RowBatch.data`: agents and colonies of different versions exchange them. */

import { describe, expect, it } from "vitest";
import { type SampleRow, sample } from "../store.fixture.ts";
import { batchFromRows, storedColumns } from "./column-batch.ts";
import { decodeBatch, encodeBatch, type RowBatch } from "./column-codec.ts";

const rows: SampleRow[] = [
  {
    at: 1_767_225_600_000_000,
    mono_ms: 0.5,
    label: "",
    note: "a",
    amount: 9_007_199_254_740_991,
    size: null,
    ratio: 1.5,
    share: null,
    flag: false,
    doubt: true,
    seen: 1,
    counts: [1, 4_294_967_295],
    extra: null,
  },
  {
    at: 1_767_225_600_000_001,
    mono_ms: 1.5,
    label: "ü",
    note: null,
    amount: -1,
    size: 5,
    ratio: -0.5,
    share: null,
    flag: true,
    doubt: null,
    seen: null,
    counts: [],
    extra: [7],
  },
];

/** Per column: length, null flag, validity bitmap if flagged, then offsets and values. */
const golden: readonly (readonly [name: string, type: string, hex: string])[] = [
  ["time", "time", "11000000 00 0040204648470600 0140204648470600"],
  ["mono_ms", "float", "11000000 00 000000000000e03f 000000000000f83f"],
  ["label", "text", "0f000000 00 00000000 00000000 02000000 c3bc"],
  ["note", "text", "0f000000 01 fd 00000000 01000000 01000000 61"],
  ["amount", "int", "11000000 00 ffffffffffff1f00 ffffffffffffffff"],
  ["size", "int", "12000000 01 fe 0000000000000000 0500000000000000"],
  ["ratio", "float", "11000000 00 000000000000f83f 000000000000e0bf"],
  ["share", "float", "12000000 01 fc 0000000000000000 0000000000000000"],
  ["flag", "bool", "03000000 00 00 01"],
  ["doubt", "bool", "04000000 01 fd 01 00"],
  ["seen", "time", "12000000 01 fd 0100000000000000 0000000000000000"],
  ["counts", "uints", "15000000 00 00000000 08000000 08000000 01000000 ffffffff"],
  ["extra", "uints", "12000000 01 fe 00000000 00000000 04000000 07000000"],
];

const goldenBatch: RowBatch = {
  firstSeq: 41,
  lastSeq: 42,
  rows: 2,
  columns: golden.map(([name, type]) => ({ name, type })),
  data: Buffer.from(golden.map(([, , hex]) => hex.replaceAll(" ", "")).join(""), "hex"),
};

describe("the row batch format", () => {
  it("is written byte for byte", () => {
    const { data, ...rest } = encodeBatch(batchFromRows(sample, rows), 41);
    const { data: goldenData, ...goldenRest } = goldenBatch;
    expect(rest).toEqual(goldenRest);
    expect(Buffer.from(data).toString("hex")).toBe(Buffer.from(goldenData).toString("hex"));
  });

  it("is read back as the rows that were sent", () => {
    expect(decodeBatch(goldenBatch, storedColumns(sample))).toEqual(asViews(batchFromRows(sample, rows)));
  });
});

/** `decodeBatch()` returns views into a Buffer where `batchFromRows()` has plain arrays. */
function asViews(batch: ReturnType<typeof batchFromRows>): unknown {
  return {
    ...batch,
    columns: batch.columns.map((column) => ({
      ...column,
      validity: column.validity && Buffer.from(column.validity),
      ...(column.kind === "fixed" ? { values: Buffer.from(column.values) } : { bytes: Buffer.from(column.bytes) }),
    })),
  };
}
