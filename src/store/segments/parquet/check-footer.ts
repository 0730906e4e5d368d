/** Checks that a file's footer was written by our own writer. Takes a tenth of the time that DuckDB needs to open the file. */

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { SegmentSignal } from "../../signals/define-segment-signal.ts";
import { schemaOf } from "./encode-parquet.ts";
import { parquetTypes, type SchemaColumn, schemaElements } from "./parquet-schema.ts";
import { type ReadThrift, readThrift } from "./read-thrift.ts";
import { encodeThrift, int32, int64, list } from "./thrift-compact.ts";

/** Length of the footer (4 bytes) and "PAR1". */
const tailBytes = 8;
/** Far more than a segment of a million rows needs. */
const maxFooterBytes = 4 * 1024 * 1024;
/** Most footers are shorter, so the first read gets them. */
const usualFooterBytes = 16 * 1024;

/**
 * True if the file has exactly the columns of the signal's current version, so many rows, and a footer whose column chunks are all inside
 * the file. False otherwise: it may still be a segment of another version or writer, or not be Parquet.
 */
export function hasOwnFooter(signal: SegmentSignal, file: string, rows: number): boolean {
  const found = readFooter(file);
  if (found === undefined) return false;
  const schema = schemaOf(signal);
  const beginning = encodeThrift([
    [1, int32(1)],
    [2, list(schemaElements(schema))],
    [3, int64(rows)],
  ]).subarray(0, -1);
  if (Buffer.compare(found.footer.subarray(0, beginning.length), beginning) !== 0) return false;
  let groups: ReadThrift | undefined;
  try {
    groups = readThrift(found.footer).get(4);
  } catch {
    // DuckDB reports what is wrong with it.
    return false;
  }
  if (!Array.isArray(groups)) return false;
  let counted = 0;
  for (const group of groups) {
    const groupRows = fieldOf(group, 3);
    const chunks = fieldOf(group, 1);
    if (typeof groupRows !== "number" || groupRows <= 0 || typeof fieldOf(group, 2) !== "number") return false;
    if (!Array.isArray(chunks) || chunks.length !== schema.length) return false;
    if (!schema.every((column, index) => isChunkOf(column, chunks[index], groupRows, found.endOfData))) return false;
    counted += groupRows;
  }
  return counted === rows;
}

/** Checks the required fields, and that the pages are inside the data. */
function isChunkOf(column: SchemaColumn, chunk: ReadThrift | undefined, rows: number, endOfData: number): boolean {
  const meta = fieldOf(chunk, 3);
  const numbers = [1, 4, 5, 6, 7, 9].map((id) => fieldOf(meta, id));
  const [physical, codec, values, plainBytes, sizeBytes, dataOffset] = numbers as number[];
  if (!numbers.every(Number.isSafeInteger) || !Number.isSafeInteger(fieldOf(chunk, 2))) return false;
  const [path, encodings] = [fieldOf(meta, 3), fieldOf(meta, 2)];
  if (!Array.isArray(path) || path.length !== 1 || !Array.isArray(encodings) || !encodings.every(Number.isSafeInteger)) return false;
  if (!(path[0] instanceof Uint8Array) || Buffer.from(path[0]).toString("utf8") !== column.name) return false;
  const start = fieldOf(meta, 11) ?? dataOffset;
  if (typeof start !== "number" || start < 4 || start > (dataOffset as number)) return false;
  if ((sizeBytes as number) <= 0 || start + (sizeBytes as number) > endOfData || (plainBytes as number) <= 0) return false;
  return physical === parquetTypes[column.type].physical && values === rows && (codec === 0 || codec === 4);
}

function fieldOf(value: ReadThrift | undefined, id: number): ReadThrift | undefined {
  return value instanceof Map ? (value as ReadonlyMap<number, ReadThrift>).get(id) : undefined;
}

/** Undefined unless the file starts and ends like Parquet. `endOfData` is the offset of the footer. */
function readFooter(file: string): { footer: Uint8Array; endOfData: number } | undefined {
  const descriptor = openSync(file, "r");
  try {
    const { size } = fstatSync(descriptor);
    const read = (lengthBytes: number): Buffer => {
      const bytes = Buffer.allocUnsafe(lengthBytes);
      return bytes.subarray(0, readSync(descriptor, bytes, 0, lengthBytes, size - lengthBytes));
    };
    const begin = Buffer.alloc(4);
    readSync(descriptor, begin, 0, 4, 0);
    let end = read(Math.min(size, usualFooterBytes));
    if (size < tailBytes + 4 || begin.toString("latin1") !== "PAR1" || end.toString("latin1", end.length - 4) !== "PAR1") return undefined;
    const footerBytes = end.readUInt32LE(end.length - tailBytes);
    const endOfData = size - tailBytes - footerBytes;
    if (endOfData < 4 || footerBytes > maxFooterBytes) return undefined;
    if (footerBytes + tailBytes > end.length) end = read(footerBytes + tailBytes);
    return { footer: end.subarray(end.length - tailBytes - footerBytes, end.length - tailBytes), endOfData };
  } finally {
    closeSync(descriptor);
  }
}
