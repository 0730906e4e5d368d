/** Parquet readers reject a whole file for one string that is not valid UTF-8, so strings are checked before writing. */

import { isUtf8 } from "node:buffer";

export interface PackedText {
  bytes: Uint8Array;
  /** One more than there are values. */
  offsets: Uint32Array;
}

/** The same strings, with invalid UTF-8 replaced by U+FFFD. Valid ones are returned without a copy. */
export function repairUtf8(text: PackedText, count: number): PackedText {
  const used = text.bytes.subarray(text.offsets[0] ?? 0, text.offsets[count] ?? 0);
  if (isUtf8(used) && beginsWhole(text, count)) return text;
  const parts: Uint8Array[] = [];
  const offsets = new Uint32Array(count + 1);
  for (let index = 0; index < count; index++) {
    const value = text.bytes.subarray(text.offsets[index], text.offsets[index + 1]);
    const part = isUtf8(value) ? value : Buffer.from(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("utf8"));
    parts.push(part);
    offsets[index + 1] = (offsets[index] ?? 0) + part.length;
  }
  return { bytes: Buffer.concat(parts), offsets };
}

/** The concatenated bytes may be valid even though two values split a character; then the second value starts with a continuation byte. */
function beginsWhole({ bytes, offsets }: PackedText, count: number): boolean {
  for (let index = 1; index < count; index++) {
    const start = offsets[index] as number;
    if (start < (offsets[index + 1] as number) && ((bytes[start] as number) & 0xc0) === 0x80) return false;
  }
  return true;
}
