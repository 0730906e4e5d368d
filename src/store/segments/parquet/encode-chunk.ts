/** Encodes one column of one row group: its pages, and its description for the footer. */

import { brotliCompressSync, constants } from "node:zlib";
import { type EncodeScratch, newMemory, type PageMemory } from "./encode-scratch.ts";
import {
  type EncodedValues,
  encode64,
  encodeBools,
  encodeFixed,
  encodeInt32,
  encodeInt64,
  encodeReversed8,
  encodeRun,
  encodeRuns,
  encodeTexts,
} from "./encode-values.ts";
import { parquetTypes, type SchemaColumn } from "./parquet-schema.ts";
import { type BatchColumn, type DictionaryColumn, isPresent, type TextColumn } from "./segment-batch.ts";
import { bytes, encodeThrift, int32, int64, list, struct, type ThriftFields, type ThriftValue } from "./thrift-compact.ts";

const encodings = { plain: 0, levels: 3, dictionary: 8 } as const;
const codecs = { none: 0, brotli: 4 } as const;

/** Beyond so many distinct texts in a row group, or bytes of them, texts are written without a dictionary. */
const maxDictionaryEntries = 16_384;
const maxDictionaryBytes = 4 * 1024 * 1024;
/** Longer values get no statistics: readers do not truncate them, and filters do not benefit. */
const maxStatisticBytes = 256;

/** Smaller pages are not compressed. */
const smallPageBytes = 64;
/** log2 of Brotli's window size. */
const windowBits = 16;
const noRows = new Uint32Array(0);
const noBytes = new Uint8Array(0);

export interface EncodedChunk {
  parts: Uint8Array[];
  sizeBytes: number;
  /** The footer's ColumnChunk, given the offset of the chunk in the file. */
  describe(fileOffset: number): ThriftValue;
}

interface Body extends EncodedValues {
  dictionary?: { data: Uint8Array; entries: number };
}

/** `order`: row numbers of the batch in file order. An absent column is null in every row. */
export function encodeChunk(
  schema: SchemaColumn,
  column: BatchColumn | undefined,
  order: Uint32Array,
  scratch: EncodeScratch,
): EncodedChunk {
  const rows = column === undefined ? noRows : presentRows(column, order, scratch);
  const levels = schema.nullable ? definitionLevels(column, order, rows.length, scratch) : noBytes;
  const page = scratch.page(levels);
  const body: Body = column === undefined ? { data: page.take(0) } : encodeBody(schema, column, rows, page, scratch);
  const content = page.pageOf(body.data);
  // Random ids do not compress, and look-ups in uncompressed pages are three times as fast. Compressing a few bytes is not worth it either.
  const isPlain = schema.type === "id16" || schema.type === "id8" || (content.length < smallPageBytes && body.dictionary === undefined);
  const codec = isPlain ? "none" : "brotli";
  const encoding = body.dictionary ? encodings.dictionary : encodings.plain;
  const dictionaryPage = body.dictionary ? encodeDictionaryPage(body.dictionary.data, body.dictionary.entries) : undefined;
  const dataPage = encodeDataPage(content, order.length, encoding, codec);
  const pages = dictionaryPage ? [dictionaryPage, dataPage] : [dataPage];
  const sizeBytes = total(pages, (page) => page.sizeBytes);
  const describe = (fileOffset: number): ThriftValue => {
    const dataOffset = fileOffset + (dictionaryPage?.sizeBytes ?? 0);
    const meta = struct([
      [1, int32(parquetTypes[schema.type].physical)],
      [2, list((dictionaryPage ? [encodings.plain, encodings.levels, encoding] : [encoding, encodings.levels]).map(int32))],
      [3, list([bytes(schema.name)])],
      [4, int32(codecs[codec])],
      [5, int64(order.length)],
      [6, int64(total(pages, (page) => page.plainBytes))],
      [7, int64(sizeBytes)],
      [9, int64(dataOffset)],
      [11, dictionaryPage ? int64(fileOffset) : undefined],
      [12, statistics(body, order.length - rows.length)],
    ]);
    return struct([
      [2, int64(fileOffset)],
      [3, meta],
    ]);
  };
  return { parts: pages.flatMap((page) => page.parts), sizeBytes, describe };
}

function statistics({ min, max }: EncodedValues, nulls: number): ThriftValue {
  return struct([
    [3, int64(nulls)],
    [5, max && bytes(max)],
    [6, min && bytes(min)],
  ]);
}

function presentRows({ present }: BatchColumn, order: Uint32Array, scratch: EncodeScratch): Uint32Array {
  if (present === undefined) return order;
  const rows = scratch.rows(order.length);
  let count = 0;
  for (let index = 0; index < order.length; index++) {
    const row = order[index] as number;
    if ((((present[row >> 3] ?? 0) >> (row & 7)) & 1) === 1) rows[count++] = row;
  }
  return rows.subarray(0, count);
}

function definitionLevels(column: BatchColumn | undefined, order: Uint32Array, present: number, scratch: EncodeScratch): Uint8Array {
  const isMixed = column !== undefined && present > 0 && present < order.length;
  const runs = isMixed ? encodeRuns(presence(column, order, scratch), 1) : encodeRun(present > 0 ? 1 : 0, order.length);
  const data = Buffer.alloc(4 + runs.length);
  data.writeUInt32LE(runs.length);
  data.set(runs, 4);
  return data;
}

function presence(column: BatchColumn, order: Uint32Array, scratch: EncodeScratch): Uint32Array {
  const levels = scratch.values(order.length);
  for (let index = 0; index < order.length; index++) levels[index] = isPresent(column, order[index] as number) ? 1 : 0;
  return levels;
}

function encodeBody(schema: SchemaColumn, column: BatchColumn, rows: Uint32Array, room: PageMemory, scratch: EncodeScratch): Body {
  switch (column.kind) {
    case "int64":
      return encodeInt64(column.values, rows, room);
    case "int32":
      return encodeInt32(column.values, rows, room);
    case "double":
      return encode64(column.values, rows, room);
    case "bool":
      return encodeBools(column.values, rows, room);
    case "fixed":
      return schema.type === "id8" ? encodeReversed8(column, rows, room) : encodeFixed(column, rows, room);
    case "text":
      return encodeTexts(column, rows, room);
    case "dictionary":
      return encodeDictionary(column, rows, room, scratch);
  }
}

/** Writes only the codes that this row group uses, not the batch's whole dictionary. */
function encodeDictionary(column: DictionaryColumn, rows: Uint32Array, room: PageMemory, scratch: EncodeScratch): Body {
  const { codes, offsets } = column;
  const localOf = scratch.locals(offsets.length);
  const local = scratch.values(rows.length);
  const used: number[] = [];
  let usedBytes = 0;
  for (let index = 0; index < rows.length; index++) {
    const code = codes[rows[index] as number] as number;
    let at = localOf[code] as number;
    if (at < 0) {
      at = used.length;
      localOf[code] = at;
      used.push(code);
      usedBytes += 4 + (offsets[code + 1] as number) - (offsets[code] as number);
      if (used.length > maxDictionaryEntries || usedBytes > maxDictionaryBytes) break;
    }
    local[index] = at;
  }
  for (const code of used) localOf[code] = -1;
  if (used.length > maxDictionaryEntries || usedBytes > maxDictionaryBytes) return encodeTexts(column, codesOf(codes, rows, scratch), room);
  const width = used.length <= 1 ? 0 : 32 - Math.clz32(used.length - 1);
  const runs = encodeRuns(local, width);
  const data = room.take(1 + runs.length);
  data[0] = width;
  data.set(runs, 1);
  const dictionary = { data: encodeTexts(column, Uint32Array.from(used), newMemory).data, entries: used.length };
  return { data, dictionary, ...textBounds(column, used) };
}

function codesOf(codes: Uint32Array, rows: Uint32Array, scratch: EncodeScratch): Uint32Array {
  const entries = scratch.values(rows.length);
  for (let index = 0; index < rows.length; index++) entries[index] = codes[rows[index] as number] as number;
  return entries;
}

function textBounds(
  { bytes: all, offsets }: TextColumn | DictionaryColumn,
  entries: readonly number[],
): Pick<EncodedValues, "min" | "max"> {
  let min: Uint8Array | undefined;
  let max: Uint8Array | undefined;
  for (const entry of entries) {
    const value = all.subarray(offsets[entry], offsets[entry + 1]);
    if (value.length > maxStatisticBytes) return {};
    if (min === undefined || Buffer.compare(value, min) < 0) min = value;
    if (max === undefined || Buffer.compare(value, max) > 0) max = value;
  }
  return { ...(min && { min }), ...(max && { max }) };
}

interface Page {
  parts: Uint8Array[];
  sizeBytes: number;
  /** Size before compression, including the header. */
  plainBytes: number;
}

function encodeDataPage(body: Uint8Array, values: number, encoding: number, codec: keyof typeof codecs): Page {
  const header = struct([
    [1, int32(values)],
    [2, int32(encoding)],
    [3, int32(encodings.levels)],
    [4, int32(encodings.levels)],
  ]);
  return encodePage(body, codec, [[1, int32(0)]], [[5, header]]);
}

function encodeDictionaryPage(body: Uint8Array, entries: number): Page {
  const header = struct([
    [1, int32(entries)],
    [2, int32(encodings.plain)],
  ]);
  return encodePage(body, "brotli", [[1, int32(2)]], [[7, header]]);
}

function encodePage(body: Uint8Array, codec: keyof typeof codecs, before: ThriftFields, after: ThriftFields): Page {
  // Copies an uncompressed page: its memory is reused for the next one.
  const stored = codec === "brotli" ? compress(body) : body.slice();
  const header = encodeThrift([...before, [2, int32(body.length)], [3, int32(stored.length)], ...after]);
  return { parts: [header, stored], sizeBytes: header.length + stored.length, plainBytes: header.length + body.length };
}

/**
 * Quality 1 is smaller than gzip and twice as fast as its fastest level, and DuckDB reads it. A larger window is a third slower and not
 * smaller.
 */
function compress(body: Uint8Array): Uint8Array {
  return brotliCompressSync(body, {
    chunkSize: Math.max(1_024, (body.length >> 1) + 1_024),
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 1,
      [constants.BROTLI_PARAM_LGWIN]: windowBits,
      [constants.BROTLI_PARAM_SIZE_HINT]: body.length,
    },
  });
}

function total<T>(items: readonly T[], sizeOf: (item: T) => number): number {
  return items.reduce((sum, item) => sum + sizeOf(item), 0);
}
