import { createHash } from "node:crypto";
import { closeSync, fsyncSync, openSync, rmSync, writevSync } from "node:fs";
import { releaseBuffer } from "../../base/release-bytes.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import { buildLookupFilter } from "./lookup-filter.ts";
import { encodeParquet } from "./parquet/encode-parquet.ts";
import { isPresent, type SegmentBatch } from "./parquet/segment-batch.ts";
import type { SegmentSummary } from "./seal-segment.ts";

/** Limit on the services listed per segment in the manifest; beyond it the list is null. */
export const maxListedServices = 64;
/** Buffers per system call (IOV_MAX). */
const maxBuffers = 1_024;

/**
 * Writes a batch as a segment, synced to disk, for the store to rename. Writes nothing without rows. Synchronous: run it in a worker.
 * Removes the partial file when it fails, such as on a full disk.
 */
export function writeSegmentFile(signal: SegmentSignal, batch: SegmentBatch, file: string): SegmentSummary {
  const schemaVersion = signal.version;
  if (batch.rows === 0) return { rows: 0, sizeBytes: 0, minTimeUs: 0, maxTimeUs: 0, services: [], schemaVersion, sha256: "" };
  const { parts, sizeBytes, services } = encodeParquet(signal, batch);
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  try {
    writeParts(file, parts);
  } catch (error) {
    rmSync(file, { force: true });
    throw error;
  }
  // A worker allocates few objects, so its garbage collector runs rarely. Releasing buffers here keeps those of several files from adding
  // up.
  for (const { buffer } of parts) releaseBuffer(buffer);
  const lookupFilter = lookupFilterOf(signal, batch);
  return {
    rows: batch.rows,
    sizeBytes,
    ...timeBounds(batch),
    services: services.length > maxListedServices ? null : services,
    ...(lookupFilter && { lookupFilter }),
    schemaVersion,
    sha256: hash.digest("hex"),
  };
}

function writeParts(file: string, parts: readonly Uint8Array[]): void {
  const descriptor = openSync(file, "w", 0o600);
  try {
    for (let start = 0; start < parts.length; start += maxBuffers) writeAll(descriptor, parts.slice(start, start + maxBuffers));
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function writeAll(descriptor: number, parts: readonly Uint8Array[]): void {
  let left = parts.filter((part) => part.length > 0);
  while (left.length > 0) {
    let written = writevSync(descriptor, left);
    const next: Uint8Array[] = [];
    for (const part of left) {
      if (written < part.length) next.push(part.subarray(written));
      written = Math.max(0, written - part.length);
    }
    left = next;
  }
}

function timeBounds({ rows, columns }: SegmentBatch): { minTimeUs: number; maxTimeUs: number } {
  const column = columns["time"];
  if (column?.kind !== "int64") return { minTimeUs: 0, maxTimeUs: 0 };
  let min = column.values[0] as bigint;
  let max = min;
  for (let row = 1; row < rows; row++) {
    const value = column.values[row] as bigint;
    if (value < min) min = value;
    else if (value > max) max = value;
  }
  return { minTimeUs: Number(min), maxTimeUs: Number(max) };
}

function lookupFilterOf(signal: SegmentSignal, { rows, columns }: SegmentBatch): Uint8Array | undefined {
  const column = signal.lookup === undefined ? undefined : columns[signal.lookup];
  if (column?.kind !== "fixed") return undefined;
  if (column.present === undefined) return buildLookupFilter(column.bytes, rows);
  const ids = new Uint8Array(rows * 16);
  let count = 0;
  for (let row = 0; row < rows; row++) {
    if (!isPresent(column, row)) continue;
    ids.set(column.bytes.subarray(row * 16, row * 16 + 16), count * 16);
    count++;
  }
  return buildLookupFilter(ids, count);
}
