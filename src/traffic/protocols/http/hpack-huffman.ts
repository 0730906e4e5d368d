/** Decodes Huffman-coded strings of HPACK: RFC 7541, section 5.2. */

import { endOfString, type HuffmanTable, huffmanTable } from "./hpack-tables.ts";

/** Output buffer; grows with longer strings, up to the size of a header block. */
let output = Buffer.alloc(1024);

interface LongCode {
  symbol: number;
  bits: number;
}

/** A code of more than 8 bits, at the top of the 30 bits given. */
function longCode(table: HuffmanTable, window: number, available: number): LongCode | null {
  for (const { bits, firstCode, count, firstSymbol } of table.lengths) {
    if (bits <= 8) continue;
    if (bits > available) return null;
    const offset = Math.floor(window / 2 ** (30 - bits)) - firstCode;
    if (offset >= 0 && offset < count) return { symbol: table.symbols[firstSymbol + offset] ?? endOfString, bits };
  }
  return null;
}

/** The 30 bits from a position on, padded with zeros. */
function windowAt(bytes: Uint8Array, start: number, bit: number): number {
  const index = start + (bit >> 3);
  let value = 0;
  for (let offset = 0; offset < 5; offset++) value = value * 256 + (bytes[index + offset] ?? 0);
  return Math.floor(value / 2 ** (10 - (bit & 7))) % 2 ** 30;
}

/** Null for an invalid string: an end mark within it, or wrong padding. */
export function decodeHuffman(bytes: Uint8Array, start: number, length: number): string | null {
  const table = huffmanTable();
  // The shortest code has 5 bits.
  const most = Math.ceil((length * 8) / 5) + 1;
  if (output.length < most) output = Buffer.alloc(most * 2);
  const total = length * 8;
  let bit = 0;
  let written = 0;
  while (bit < total) {
    const index = start + (bit >> 3);
    const shift = bit & 7;
    const isLast = bit + 8 > total;
    const next = isLast ? 0xff : (bytes[index + 1] ?? 0);
    const byte = (((bytes[index] ?? 0) << shift) | (next >> (8 - shift))) & 0xff;
    const entry = table.short[byte] ?? 0;
    if (entry !== 0 && bit + (entry & 15) <= total) {
      output[written++] = entry >> 4;
      bit += entry & 15;
      continue;
    }
    // The rest is padding: fewer than 8 bits, all ones.
    if (isLast) return byte === 0xff ? output.toString("latin1", 0, written) : null;
    const code = longCode(table, windowAt(bytes, start, bit), total - bit);
    if (code === null) return isPadding(bytes, start, bit, total) ? output.toString("latin1", 0, written) : null;
    if (code.symbol === endOfString) return null;
    output[written++] = code.symbol;
    bit += code.bits;
  }
  return output.toString("latin1", 0, written);
}

function isPadding(bytes: Uint8Array, start: number, bit: number, total: number): boolean {
  if (total - bit >= 8) return false;
  const left = total - bit;
  return ((bytes[start + (total >> 3) - 1] ?? 0) & ((1 << left) - 1)) === (1 << left) - 1;
}
