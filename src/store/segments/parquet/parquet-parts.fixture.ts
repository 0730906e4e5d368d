/** Takes a Parquet file apart and decompresses its pages: these parts must stay the same when only the compressor changes. */

import { brotliDecompressSync } from "node:zlib";
import { type ReadThrift, readThrift } from "./read-thrift.ts";

/** Thrift structs by field id; bytes as text where they are printable, else as hex. */
export type PlainThrift = number | boolean | string | readonly PlainThrift[] | { [id: string]: PlainThrift };

export interface ParquetParts {
  /** Without offsets and compressed sizes. */
  footer: PlainThrift;
  /** In the order of the file; page headers without compressed sizes, contents as hex. */
  pages: { column: string; header: PlainThrift; content: string }[];
}

const ids = { rowGroups: 4, groupChunks: 1, groupBytes: 2, chunkOffset: 2, chunkMeta: 3, path: 3, codec: 4, compressedBytes: 7 } as const;
const metaOffsets = [ids.compressedBytes, 9, 11];
const pageCompressedBytes = 3;
const brotli = 4;

export function parquetParts(file: Buffer): ParquetParts {
  const footerEnd = file.length - 8;
  const footerStart = footerEnd - file.readUInt32LE(footerEnd);
  const footer = structOf(readThrift(file.subarray(footerStart, footerEnd)));
  const pages: ParquetParts["pages"] = [];
  let at = 4;
  for (const group of listOf(footer.get(ids.rowGroups))) {
    for (const chunk of listOf(structOf(group).get(ids.groupChunks))) {
      const meta = structOf(structOf(chunk).get(ids.chunkMeta));
      const column = String(plain(listOf(meta.get(ids.path))[0]));
      const end = at + Number(meta.get(ids.compressedBytes));
      while (at < end) {
        const { header, headerBytes } = readHeader(file.subarray(at, end));
        const stored = file.subarray(at + headerBytes, at + headerBytes + Number(header.get(pageCompressedBytes)));
        const content = meta.get(ids.codec) === brotli ? brotliDecompressSync(stored) : stored;
        pages.push({ column, header: plain(without(header, [pageCompressedBytes])), content: content.toString("hex") });
        at += headerBytes + stored.length;
      }
      for (const id of metaOffsets) meta.delete(id);
      structOf(chunk).delete(ids.chunkOffset);
    }
    structOf(group).delete(ids.groupBytes);
  }
  if (at !== footerStart) throw new Error(`${footerStart - at} bytes between the last page and the footer`);
  return { footer: plain(footer), pages };
}

/** Page headers have no length field: the header is the shortest prefix that is a complete struct. */
function readHeader(bytes: Buffer): { header: Map<number, ReadThrift>; headerBytes: number } {
  for (let headerBytes = 1; headerBytes <= Math.min(bytes.length, 256); headerBytes++) {
    try {
      return { header: structOf(readThrift(bytes.subarray(0, headerBytes))), headerBytes };
    } catch (error) {
      if (!String(error).includes("unexpected end") && !String(error).includes("longer than")) throw error;
    }
  }
  throw new Error("page header not found");
}

function structOf(value: ReadThrift | undefined): Map<number, ReadThrift> {
  if (!(value instanceof Map)) throw new Error("missing Thrift struct");
  return value as Map<number, ReadThrift>;
}

function listOf(value: ReadThrift | undefined): readonly ReadThrift[] {
  if (!Array.isArray(value)) throw new Error("missing Thrift list");
  return value as readonly ReadThrift[];
}

function without(fields: ReadonlyMap<number, ReadThrift>, removed: readonly number[]): Map<number, ReadThrift> {
  return new Map([...fields].filter(([id]) => !removed.includes(id)));
}

function plain(value: ReadThrift | undefined): PlainThrift {
  if (value === undefined) throw new Error("missing Thrift value");
  if (value instanceof Uint8Array) {
    const text = Buffer.from(value).toString("latin1");
    return /^[ -~]+$/.test(text) ? text : `0x${Buffer.from(value).toString("hex")}`;
  }
  if (Array.isArray(value)) return (value as readonly ReadThrift[]).map(plain);
  if (value instanceof Map)
    return Object.fromEntries([...(value as ReadonlyMap<number, ReadThrift>)].map(([id, item]) => [id, plain(item)]));
  return value as number | boolean;
}
