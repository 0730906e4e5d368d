import { expect, test } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { sample, sampleRows, seededRandom } from "../store.fixture.ts";
import { type BatchColumn, batchFromRows, type ColumnBatch, dropRows, type StoredColumn, storedColumns } from "./column-batch.ts";
import { decodeBatch, encodeBatch, encodedBytes, type RowBatch } from "./column-codec.ts";

const columns = storedColumns(sample);
const batchOf = (rows: number, first = 0): ColumnBatch =>
  batchFromRows(
    sample,
    sampleRows(rows, (index) => 1_000 + index, first),
  );

/** The content of a batch, independent of its memory layout. */
function contents(batch: ColumnBatch): Record<string, unknown[]> {
  const valueAt = (column: BatchColumn, index: number): unknown => {
    if (column.validity && ((column.validity[index >> 3]! >> (index & 7)) & 1) === 0) return null;
    if (column.kind === "variable") {
      const bytes = column.bytes.subarray(column.offsets[index], column.offsets[index + 1]);
      return column.type === "text" ? Buffer.from(bytes).toString() : [...new Uint32Array(Uint8Array.from(bytes).buffer)];
    }
    const view = new DataView(column.values.buffer, column.values.byteOffset);
    if (column.type === "bool") return view.getUint8(index) === 1;
    return column.type === "float" ? view.getFloat64(index * 8, true) : Number(view.getBigInt64(index * 8, true));
  };
  return Object.fromEntries(
    batch.columns.map((column) => [column.name, Array.from({ length: batch.rows }, (_, index) => valueAt(column, index))]),
  );
}

function expectedContents(rows: number, first = 0): Record<string, unknown[]> {
  const source = sampleRows(rows, (index) => 1_000 + index, first) as unknown as Record<string, unknown>[];
  return Object.fromEntries(columns.map(({ name }) => [name, source.map((row) => row[name === "time" ? "at" : name])]));
}

test.for([1, 7, 8, 9, 100, 2_047, 2_048, 2_049])("encodeBatch() and decodeBatch() keep %i rows unchanged", (rows) => {
  const encoded = encodeBatch(batchOf(rows), 41);
  expect(encoded).toMatchObject({ firstSeq: 41, lastSeq: 40 + rows, rows });
  expect(encoded.data.length).toBe(encodedBytes(batchOf(rows), rows));
  expect(contents(decodeBatch(encoded, columns))).toEqual(expectedContents(rows));
});

test("encodeBatch() of a prefix is the encoding of those rows", () => {
  const prefix = encodeBatch(batchOf(100), 1, 33);
  expect(contents(decodeBatch(prefix, columns))).toEqual(expectedContents(33));
  expect(prefix.data.length).toBe(encodedBytes(batchOf(100), 33));
});

test("decodeBatch() accepts data at any memory offset", () => {
  const encoded = encodeBatch(batchOf(20), 1);
  for (const shift of [1, 2, 3, 5]) {
    const moved = new Uint8Array(encoded.data.length + shift);
    moved.set(encoded.data, shift);
    expect(contents(decodeBatch({ ...encoded, data: moved.subarray(shift) }, columns))).toEqual(expectedContents(20));
    const pooled = Buffer.concat([Buffer.alloc(shift), encoded.data]).subarray(shift);
    expect(contents(decodeBatch({ ...encoded, data: pooled }, columns))).toEqual(expectedContents(20));
  }
});

test.for([0, 1, 7, 8, 9, 63])("dropRows() leaves the rows after the first %i", (start) => {
  expect(contents(dropRows(batchOf(64), start))).toEqual(expectedContents(64 - start, start));
});

test("decodeBatch() skips unknown columns and omits those not sent", () => {
  const encoded = encodeBatch(batchOf(10), 1);
  const wanted: StoredColumn[] = [
    ...columns.filter(({ name }) => name !== "note" && name !== "counts"),
    { name: "later", type: "text", nullable: true },
  ];
  const decoded = decodeBatch(encoded, wanted);
  const { note: _note, counts: _counts, ...rest } = expectedContents(10);
  expect(contents(decoded)).toEqual(rest);
  const renamed = encoded.columns.map((column) => (column.name === "extra" ? { name: "extra", type: "decimal" } : column));
  const withoutExtra = columns.filter(({ name }) => name !== "extra");
  expect(decodeBatch({ ...encoded, columns: renamed }, withoutExtra).columns).toHaveLength(withoutExtra.length);
});

/** One row of one column besides the two that every batch has. */
function single(type: string, section: number[]): RowBatch {
  const fixed = (bytes: number[]): number[] => [bytes.length, 0, 0, 0, ...bytes];
  const number = [0, ...new Array<number>(8).fill(0)];
  return {
    ...{ firstSeq: 1, lastSeq: 1, rows: 1 },
    columns: [
      { name: "time", type: "time" },
      { name: "mono_ms", type: "float" },
      { name: "x", type },
    ],
    data: Uint8Array.from([...fixed(number), ...fixed(number), ...fixed(section)]),
  };
}
const singleColumns = (type: StoredColumn["type"]): StoredColumn[] => [...columns.slice(0, 2), { name: "x", type, nullable: true }];

test("decodeBatch() accepts the smallest batches", () => {
  expect(contents(decodeBatch(single("text", [0, 0, 0, 0, 0, 1, 0, 0, 0, 65]), singleColumns("text")))["x"]).toEqual(["A"]);
  expect(contents(decodeBatch(single("bool", [1, 0, 0]), singleColumns("bool")))["x"]).toEqual([null]);
});

test.for<[string, RowBatch, StoredColumn["type"]]>([
  ["an empty section", single("int", []), "int"],
  ["an unknown null flag", single("bool", [2, 0]), "bool"],
  ["a missing validity", single("bool", [1]), "bool"],
  ["too few values", single("int", [0, 1, 2, 3]), "int"],
  ["too many values", single("int", [0, ...new Array<number>(16).fill(0)]), "int"],
  ["a bool of 2", single("bool", [0, 2]), "bool"],
  ["an integer beyond 2^53", single("int", [0, 0, 0, 0, 0, 0, 0, 0x20, 0]), "int"],
  ["an integer below -2^53", single("int", [0, 255, 255, 255, 255, 255, 255, 0xdf, 255]), "int"],
  ["a time beyond 2^53", single("time", [0, 0, 0, 0, 0, 0, 0, 0, 0x7f]), "time"],
  ["an infinity", single("float", [0, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f]), "float"],
  ["a NaN", single("float", [0, 1, 0, 0, 0, 0, 0, 0xf8, 0xff]), "float"],
  ["missing offsets", single("text", [0, 0, 0, 0]), "text"],
  ["a first offset that is not 0", single("text", [0, 1, 0, 0, 0, 1, 0, 0, 0, 65]), "text"],
  ["offsets beyond the bytes", single("text", [0, 0, 0, 0, 0, 9, 0, 0, 0, 65]), "text"],
  ["bytes beyond the offsets", single("text", [0, 0, 0, 0, 0, 1, 0, 0, 0, 65, 66]), "text"],
  ["half a character", single("text", [0, 0, 0, 0, 0, 1, 0, 0, 0, 0xc3]), "text"],
  ["a byte that is never UTF-8", single("text", [0, 0, 0, 0, 0, 1, 0, 0, 0, 0xff]), "text"],
  ["uints of three bytes", single("uints", [0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]), "uints"],
  ["another type", single("float", [0, ...new Array<number>(8).fill(0)]), "int"],
  ["a length beyond the end", { ...single("bool", [0, 1]), data: single("bool", [0, 1]).data.subarray(0, -1) }, "bool"],
  ["bytes after the last column", { ...single("bool", [0, 1]), data: Uint8Array.from([...single("bool", [0, 1]).data, 0]) }, "bool"],
  ["fewer rows than sequences", { ...single("bool", [0, 1]), lastSeq: 2 }, "bool"],
  ["no rows", { ...single("bool", [0, 1]), rows: 0, lastSeq: 0 }, "bool"],
  ["sequence 0", { ...single("bool", [0, 1]), firstSeq: 0, lastSeq: 0 }, "bool"],
  ["a sequence beyond 2^53", { ...single("bool", [0, 1]), firstSeq: 2 ** 53, lastSeq: 2 ** 53 }, "bool"],
  ["four billion rows of nothing", { firstSeq: 1, lastSeq: 4e9, rows: 4e9, columns: [], data: new Uint8Array() }, "bool"],
  ["four billion rows", { ...single("bool", [0, 1]), lastSeq: 4e9, rows: 4e9 }, "bool"],
  [
    "no time",
    {
      ...single("bool", [0, 1]),
      columns: single("bool", []).columns.map(({ name, type }) => ({ name: name === "time" ? "tim" : name, type })),
    },
    "bool",
  ],
  [
    "too many columns",
    { ...single("bool", [0, 1]), columns: new Array<RowBatch["columns"][0]>(2_000).fill({ name: "x", type: "bool" }) },
    "bool",
  ],
])("decodeBatch() rejects %s", ([, batch, type]) => {
  const decode = (): unknown => decodeBatch(batch, singleColumns(type));
  expect(decode).toThrow(CoralError);
  expect(decode).toThrow("Cannot read a row batch");
});

test("decodeBatch() rejects a null time", () => {
  const batch = single("bool", [0, 1]);
  const section = [10, 0, 0, 0, 1, 0, ...new Array<number>(8).fill(0)];
  const data = Uint8Array.from([...section, ...batch.data.subarray(13)]);
  expect(() => decodeBatch({ ...batch, data }, singleColumns("bool"))).toThrow('"time" must not be null');
});

test("decodeBatch() rejects offsets that decrease or split a character", () => {
  const encoded = encodeBatch(
    batchFromRows(
      sample,
      sampleRows(3, () => 1).map((row) => ({ ...row, label: "äöü" })),
    ),
    1,
  );
  const column = encoded.columns.findIndex(({ name }) => name === "label");
  const view = new DataView(encoded.data.buffer);
  let start = 0;
  for (let index = 0; index < column; index++) start += 4 + view.getUint32(start, true);
  const offsets = start + 5;
  view.setUint32(offsets + 4, 7, true);
  expect(() => decodeBatch(encoded, columns)).toThrow("splits a value");
  view.setUint32(offsets + 4, 16, true);
  expect(() => decodeBatch(encoded, columns)).toThrow("decrease");
  view.setUint32(offsets + 4, 8, true);
  expect(() => decodeBatch(encoded, columns)).not.toThrow();
});

test("decodeBatch() survives 20,000 mutations: it decodes or throws `invalid`", () => {
  const random = seededRandom(20_260_101);
  const pick = (limit: number): number => Math.floor(random() * limit);
  const good = encodeBatch(batchOf(50), 7);
  let rejected = 0;
  for (let round = 0; round < 20_000; round++) {
    const data = good.data.slice(0, pick(4) === 0 ? pick(good.data.length) : good.data.length);
    for (let change = pick(6); change > 0 && data.length > 0; change--) data[pick(data.length)] = pick(256);
    const batch: RowBatch = { ...good, data };
    if (pick(8) === 0) batch.rows = pick(100_000_000);
    if (pick(8) === 0) batch.lastSeq = batch.firstSeq + batch.rows - 1;
    if (pick(8) === 0) batch.columns = good.columns.filter(() => pick(3) > 0);
    try {
      const decoded = decodeBatch(batch, columns);
      contents(decoded);
    } catch (error) {
      if (!(error instanceof CoralError) || error.code !== "invalid") throw error;
      rejected++;
    }
  }
  expect(rejected).toBeGreaterThan(5_000);
  expect(rejected).toBeLessThan(20_000);
});
