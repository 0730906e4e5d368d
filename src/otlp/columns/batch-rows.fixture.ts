/** Batches as objects, to be compared in tests. */

import { type BatchColumn, isPresent, type SegmentBatch } from "../../store/segments/index.ts";

export function rowsOf(batch: SegmentBatch): Record<string, unknown>[] {
  return Array.from({ length: batch.rows }, (_, row) =>
    Object.fromEntries(
      Object.entries(batch.columns).flatMap(([name, column]) => (isPresent(column, row) ? [[name, cellOf(column, row)]] : [])),
    ),
  );
}

function cellOf(column: BatchColumn, row: number): unknown {
  switch (column.kind) {
    case "dictionary":
      return textOf(column, column.codes[row] ?? 0);
    case "text":
      return textOf(column, row);
    case "fixed":
      return Buffer.from(column.bytes.subarray(row * column.widthBytes, (row + 1) * column.widthBytes)).toString("hex");
    case "bool":
      return column.values[row] === 1;
    default:
      return column.values[row];
  }
}

function textOf({ bytes, offsets }: { bytes: Uint8Array; offsets: Uint32Array }, index: number): string {
  return Buffer.from(bytes.subarray(offsets[index], offsets[index + 1])).toString("utf8");
}
