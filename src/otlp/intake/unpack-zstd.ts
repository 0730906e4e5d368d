/** Zstandard (RFC 8878). Node supports it from version 22.15; older ones use `fzstd`, in plain JavaScript. */

import { Decompress } from "fzstd";
import { MalformedError } from "../columns/protobuf-reader.ts";

/** First four bytes of a frame, little-endian. */
const frameMagic = 0xfd2fb528;
/** First of 16 magic numbers, 0x184D2A50 to 0x184D2A5F, of frames that decoders must skip. */
const skippableMagic = 0x184d2a50;
/** The window size that RFC 8878 recommends decoders to support. A sender decides how much of it is allocated. */
const maxWindowBytes = 8 * 1_024 * 1_024;
/** RFC 8878, Block_Maximum_Size: no block expands to more. */
const maxBlockBytes = 128 * 1_024;

/** Null when the content is larger than `maxBytes`. Throws MalformedError. */
export function unpackZstd(body: Uint8Array, maxBytes: number): Uint8Array | null {
  zstdContentBound(body, maxBytes);
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    const decompress = new Decompress((chunk) => {
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes) throw tooLarge;
      // A copy: the decoder reuses its memory.
      if (chunk.length > 0) chunks.push(chunk.slice());
    });
    decompress.push(body, true);
  } catch (error) {
    if (error === tooLarge) return null;
    throw new MalformedError("the body is not valid zstd", { cause: error });
  }
  return Buffer.concat(chunks);
}

const tooLarge = new Error("The content is too large");

/** Upper bound of the decompressed size, from the headers of frames and blocks. Throws MalformedError. */
export function zstdContentBound(body: Uint8Array, maxBytes: number): number {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  let bound = 0;
  let at = 0;
  if (body.length === 0) throw malformed("it is empty");
  try {
    while (at < body.length) {
      const magic = view.getUint32(at, true);
      if ((magic & 0xfffffff0) >>> 0 === skippableMagic) at += 8 + view.getUint32(at + 4, true);
      else if (magic === frameMagic) {
        const frame = readFrame(view, at, maxBytes);
        at = frame.endAt;
        bound += frame.bound;
      } else throw malformed("a frame has no magic number");
    }
  } catch (error) {
    // DataView throws RangeError beyond the end.
    if (error instanceof RangeError) throw malformed("it is truncated", error);
    throw error;
  }
  if (at > body.length) throw malformed("it is truncated");
  return bound;
}

/** Reads a frame header and its block headers, without decompressing. Offset 4 has the Frame_Header_Descriptor. */
function readFrame(view: DataView, start: number, maxBytes: number): { endAt: number; bound: number } {
  const flags = view.getUint8(start + 4);
  const isSingle = (flags & 0x20) !== 0;
  const hasChecksum = (flags & 0x04) !== 0;
  if ((flags & 0x03) !== 0) throw malformed("it needs a dictionary");
  let at = start + 5;
  if (!isSingle) {
    const descriptor = view.getUint8(at++);
    const base = 2 ** (10 + (descriptor >> 3));
    const windowBytes = base + (base / 8) * (descriptor & 7);
    if (windowBytes > maxWindowBytes) throw malformed(`its window of ${windowBytes} bytes is larger than ${maxWindowBytes}`);
  }
  const sizeBytes = [isSingle ? 1 : 0, 2, 4, 8][flags >> 6] ?? 0;
  // The window of a single segment is as large as its content.
  if (isSingle && contentBytes(view, at, sizeBytes) > Math.max(maxBytes, maxWindowBytes)) throw malformed("its content is too large");
  at += sizeBytes;
  let bound = 0;
  for (let isLast = false; !isLast; ) {
    const header = view.getUint8(at) | (view.getUint8(at + 1) << 8) | (view.getUint8(at + 2) << 16);
    isLast = (header & 1) !== 0;
    const type = (header >> 1) & 3;
    const blockBytes = header >> 3;
    if (type === 3 || blockBytes > maxBlockBytes) throw malformed("a block is not valid");
    at += 3 + (type === 1 ? 1 : blockBytes);
    bound += type === 2 ? maxBlockBytes : blockBytes;
  }
  return { endAt: at + (hasChecksum ? 4 : 0), bound };
}

/** Frame_Content_Size. The 2-byte form is stored minus 256. */
function contentBytes(view: DataView, at: number, sizeBytes: number): number {
  if (sizeBytes === 1) return view.getUint8(at);
  if (sizeBytes === 2) return view.getUint16(at, true) + 256;
  return sizeBytes === 4 ? view.getUint32(at, true) : Number(view.getBigUint64(at, true));
}

function malformed(why: string, cause?: unknown): MalformedError {
  return new MalformedError(`the body is not valid zstd: ${why}`, { cause });
}
