/**
 * Encodes a batch as a Parquet file: sorted by service, in row groups of 20,000 rows, so that a query for one service decompresses little
 * else.
 */

import { CoralError } from "../../../base/errors.ts";
import { type SegmentSignal, segmentColumnTypeOf } from "../../signals/define-segment-signal.ts";
import { encodeChunk } from "./encode-chunk.ts";
import { EncodeScratch } from "./encode-scratch.ts";
import { type SchemaColumn, schemaElements } from "./parquet-schema.ts";
import { type PackedText, repairUtf8 } from "./repair-utf8.ts";
import type { BatchColumn, DictionaryColumn, SegmentBatch } from "./segment-batch.ts";
import { bytes, encodeThrift, int32, int64, list, struct, type ThriftValue } from "./thrift-compact.ts";

export const rowGroupRows = 20_000;
/** The `created_by` field of Parquet. */
const createdBy = "coral segment writer version 1.0.0";

export interface EncodedParquet {
  /** Write them one after the other. */
  parts: Uint8Array[];
  sizeBytes: number;
  /** Distinct services of the rows, in byte order. */
  services: string[];
}

/** Batches are encoded one at a time, so each reuses the memory of the one before. */
let shared: EncodeScratch | undefined;

/** Throws `invalid` for a batch that does not match the signal. Repairs invalid UTF-8. */
export function encodeParquet(signal: SegmentSignal, batch: SegmentBatch): EncodedParquet {
  const schema = schemaOf(signal);
  const scratch = (shared ??= new EncodeScratch());
  const dictionaries: Repaired = new Map();
  const columns = new Map(schema.map((column) => [column.name, checkedColumn(signal, column, batch, dictionaries)]));
  const { order, services } = orderByService(columns.get("service"), batch.rows);
  const magic = Buffer.from("PAR1");
  const parts: Uint8Array[] = [magic];
  let offset = magic.length;
  const groups: ThriftValue[] = [];
  for (let start = 0; start < batch.rows; start += rowGroupRows) {
    const rows = order.subarray(start, start + rowGroupRows);
    const startOffset = offset;
    const chunks: ThriftValue[] = [];
    for (const column of schema) {
      const chunk = encodeChunk(column, columns.get(column.name), rows, scratch);
      chunks.push(chunk.describe(offset));
      parts.push(...chunk.parts);
      offset += chunk.sizeBytes;
    }
    groups.push(
      struct([
        [1, list(chunks)],
        [2, int64(offset - startOffset)],
        [3, int64(rows.length)],
      ]),
    );
  }
  const footer = encodeFooter(signal, schema, batch.rows, groups);
  const tail = Buffer.alloc(8);
  tail.writeUInt32LE(footer.length);
  tail.write("PAR1", 4);
  parts.push(footer, tail);
  return { parts, sizeBytes: offset + footer.length + tail.length, services };
}

export function schemaOf(signal: SegmentSignal): SchemaColumn[] {
  return Object.entries(signal.columns).map(([name, spec]) => ({ name, ...segmentColumnTypeOf(spec) }));
}

function encodeFooter(signal: SegmentSignal, schema: readonly SchemaColumn[], rows: number, groups: readonly ThriftValue[]): Uint8Array {
  const facts = { "coral.signal": signal.name, "coral.schema-version": String(signal.version) };
  return encodeThrift([
    [1, int32(1)],
    [2, list(schemaElements(schema))],
    [3, int64(rows)],
    [4, list(groups)],
    [
      5,
      list(
        Object.entries(facts).map(([key, value]) =>
          struct([
            [1, bytes(key)],
            [2, bytes(value)],
          ]),
        ),
      ),
    ],
    [6, bytes(createdBy)],
    // ColumnOrders: without it, readers must not trust minima and maxima.
    [7, list(schema.map(() => struct([[1, struct([])]])))],
  ]);
}

const kindsOf: Record<SchemaColumn["type"], readonly BatchColumn["kind"][]> = {
  time: ["int64"],
  int64: ["int64"],
  int32: ["int32"],
  double: ["double"],
  bool: ["bool"],
  text: ["dictionary", "text"],
  id16: ["fixed"],
  id8: ["fixed"],
};

/** Keyed by the byte array, which columns may share. */
type Repaired = Map<Uint8Array, { offsets: Uint32Array; text: PackedText }>;

function repairedDictionary({ bytes: all, offsets }: DictionaryColumn, dictionaries: Repaired): PackedText {
  const known = dictionaries.get(all);
  if (known?.offsets === offsets) return known.text;
  const text = repairUtf8({ bytes: all, offsets }, offsets.length - 1);
  dictionaries.set(all, { offsets, text });
  return text;
}

function checkedColumn(
  signal: SegmentSignal,
  { name, type, nullable }: SchemaColumn,
  { rows, columns }: SegmentBatch,
  dictionaries: Repaired,
): BatchColumn | undefined {
  const fail = (why: string): never => {
    throw new CoralError({ code: "invalid", message: `Cannot write a segment of "${signal.name}": column "${name}" ${why}` });
  };
  const column = columns[name];
  if (column === undefined) return nullable || rows === 0 ? undefined : fail("is missing");
  if (!kindsOf[type].includes(column.kind)) fail(`is ${column.kind}, not ${kindsOf[type].join(" or ")}`);
  if (column.kind === "fixed" && column.widthBytes !== (type === "id16" ? 16 : 8)) fail(`is ${column.widthBytes} bytes wide`);
  if (capacityOf(column) < rows) fail(`has fewer than ${rows} rows`);
  const { present, ...rest } = column;
  if (present !== undefined && present.length * 8 < rows) fail(`has too short a null bitmap`);
  // A required column has a value in every row, whatever its bitmap says.
  const known: BatchColumn = nullable || present === undefined ? column : rest;
  if (known.kind === "dictionary") {
    checkCodes(known, rows, fail);
    return { ...known, ...repairedDictionary(known, dictionaries) };
  }
  return known.kind === "text" ? { ...known, ...repairUtf8(known, rows) } : known;
}

function capacityOf(column: BatchColumn): number {
  switch (column.kind) {
    case "dictionary":
      return column.codes.length;
    case "text":
      return column.offsets.length - 1;
    case "fixed":
      return Math.floor(column.bytes.length / column.widthBytes);
    default:
      return column.values.length;
  }
}

function checkCodes({ codes, offsets }: DictionaryColumn, rows: number, fail: (why: string) => never): void {
  const entries = offsets.length - 1;
  for (let row = 0; row < rows; row++) if ((codes[row] as number) >= entries) fail(`has code ${codes[row]} and only ${entries} entries`);
}

/** Stable: rows of one service keep their order of arrival, which is nearly time order. */
function orderByService(column: BatchColumn | undefined, rows: number): { order: Uint32Array; services: string[] } {
  if (column?.kind !== "dictionary" && column?.kind !== "text") return { order: new Uint32Array(0), services: [] };
  const isDictionary = column.kind === "dictionary";
  const { bytes: all, offsets } = column;
  const entryOf = (row: number): number => (isDictionary ? (column.codes[row] as number) : row);
  const textOf = (entry: number): string => Buffer.from(all.subarray(offsets[entry], offsets[entry + 1])).toString("utf8");
  // By text, because a dictionary may contain a text twice.
  const numberOf = new Map<string, number>();
  const numberOfEntry = new Int32Array(Math.max(1, offsets.length - 1)).fill(-1);
  for (let row = 0; row < rows; row++) {
    const entry = entryOf(row);
    if ((numberOfEntry[entry] as number) >= 0) continue;
    const text = textOf(entry);
    const number = numberOf.get(text) ?? numberOf.size;
    numberOf.set(text, number);
    numberOfEntry[entry] = number;
  }
  const services = [...numberOf.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const ranks = new Uint32Array(services.length);
  for (const [rank, service] of services.entries()) ranks[numberOf.get(service) as number] = rank;
  const starts = new Uint32Array(services.length + 1);
  for (let row = 0; row < rows; row++) {
    const rank = ranks[numberOfEntry[entryOf(row)] as number] as number;
    starts[rank + 1] = (starts[rank + 1] as number) + 1;
  }
  for (let rank = 0; rank < services.length; rank++) starts[rank + 1] = (starts[rank + 1] as number) + (starts[rank] as number);
  const order = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) {
    const rank = ranks[numberOfEntry[entryOf(row)] as number] as number;
    const at = starts[rank] as number;
    order[at] = row;
    starts[rank] = at + 1;
  }
  return { order, services };
}
