/** Builds a batch row by row, for low rates and tests. High-rate decoders fill typed arrays directly. */

import {
  type SegmentColumnSpec,
  type SegmentColumns,
  type SegmentColumnType,
  type SegmentSignal,
  segmentColumnTypeOf,
} from "../signals/define-segment-signal.ts";
import type { BatchColumn, SegmentBatch } from "./parquet/segment-batch.ts";

interface ValueTypes {
  /** Microseconds since 1970. */
  time: number | bigint;
  int64: number | bigint;
  int32: number;
  double: number;
  bool: boolean;
  text: string;
  /** 32 hex digits. */
  id16: string;
  /** 16 hex digits. */
  id8: string;
}

type ValueOf<S extends SegmentColumnSpec> = S extends `${infer T extends SegmentColumnType}?`
  ? ValueTypes[T] | null
  : S extends SegmentColumnType
    ? ValueTypes[S]
    : never;

type RequiredNames<C extends SegmentColumns> = { [K in keyof C]: C[K] extends `${string}?` ? never : K }[keyof C];

/** A row as an object. Nullable columns may be absent. */
export type SegmentRow<C extends SegmentColumns> = { [K in RequiredNames<C>]: ValueOf<C[K]> } & {
  [K in Exclude<keyof C, RequiredNames<C>>]?: ValueOf<C[K]> | undefined;
};

type AnyValue = ValueTypes[SegmentColumnType] | null | undefined;

/** A text column with at most this many distinct values is dictionary-encoded. */
const maxDictionaryEntries = 65_536;

export function batchFromSegmentRows<C extends SegmentColumns>(signal: SegmentSignal<C>, rows: readonly SegmentRow<C>[]): SegmentBatch {
  const columns: Record<string, BatchColumn> = {};
  for (const [name, spec] of Object.entries<SegmentColumnSpec>(signal.columns)) {
    const { type, nullable } = segmentColumnTypeOf(spec);
    const values = rows.map((row) => (row as Record<string, AnyValue>)[name]);
    const column = columnOf(type, values);
    const present = presentOf(values);
    if (present !== undefined && !nullable) throw new Error(`Cannot build a batch of "${signal.name}": "${name}" is required`);
    columns[name] = present === undefined ? column : { ...column, present };
  }
  return { rows: rows.length, columns };
}

function presentOf(values: readonly AnyValue[]): Uint8Array | undefined {
  const present = new Uint8Array(Math.ceil(values.length / 8));
  let absent = 0;
  for (const [row, value] of values.entries()) {
    if (value === null || value === undefined) absent++;
    else present[row >> 3] = (present[row >> 3] ?? 0) | (1 << (row & 7));
  }
  return absent === 0 ? undefined : present;
}

function columnOf(type: SegmentColumnType, values: readonly AnyValue[]): BatchColumn {
  switch (type) {
    case "time":
    case "int64":
      return { kind: "int64", values: BigInt64Array.from(values, (value) => BigInt((value as number | bigint | null | undefined) ?? 0)) };
    case "int32":
      return { kind: "int32", values: Int32Array.from(values, (value) => Number(value ?? 0)) };
    case "double":
      return { kind: "double", values: Float64Array.from(values, (value) => Number(value ?? 0)) };
    case "bool":
      return { kind: "bool", values: Uint8Array.from(values, (value) => (value === true ? 1 : 0)) };
    case "text":
      return textColumn(values.map((value) => (typeof value === "string" ? value : "")));
    case "id16":
      return idColumn(values, 16);
    case "id8":
      return idColumn(values, 8);
  }
}

function idColumn(values: readonly AnyValue[], widthBytes: number): BatchColumn {
  const bytes = Buffer.alloc(values.length * widthBytes);
  for (const [row, value] of values.entries()) {
    if (typeof value !== "string") continue;
    if (bytes.write(value, row * widthBytes, widthBytes, "hex") !== widthBytes || value.length !== widthBytes * 2) {
      throw new Error(`Cannot build a batch: "${value}" is not an id of ${widthBytes} bytes in hex`);
    }
  }
  return { kind: "fixed", widthBytes, bytes };
}

function textColumn(values: readonly string[]): BatchColumn {
  const codeOf = new Map<string, number>();
  for (const value of values) if (!codeOf.has(value)) codeOf.set(value, codeOf.size);
  if (codeOf.size > maxDictionaryEntries) return { kind: "text", ...packed(values) };
  return { kind: "dictionary", codes: Uint32Array.from(values, (value) => codeOf.get(value) ?? 0), ...packed([...codeOf.keys()]) };
}

function packed(values: readonly string[]): { bytes: Uint8Array; offsets: Uint32Array } {
  const parts = values.map((value) => Buffer.from(value));
  const offsets = new Uint32Array(parts.length + 1);
  for (const [index, part] of parts.entries()) offsets[index + 1] = (offsets[index] ?? 0) + part.length;
  return { bytes: Buffer.concat(parts), offsets };
}
