/**
 * Decodes header blocks of HTTP/2 (RFC 7541) for an observer who may join late or miss a block: an index into an unseen part of the table yields
 * `null`. Later additions are known, because indexes count from the newest entry.
 */

import { decodeHuffman } from "./hpack-huffman.ts";
import { staticEntryCount, staticTable } from "./hpack-tables.ts";

/** Null means unknown: added before the observer joined, or a skipped value. */
export type FieldVisitor = (name: string | null, value: string | null) => void;

export interface HpackDecoderOptions {
  /** Memory for the dynamic table. Older entries than fit are unknown, never wrong. Default 16 KiB. */
  maxTableBytes?: number;
  /** Values of other names are skipped. Default: all are read. */
  isWanted?: (name: string) => boolean;
}

export interface BlockResult {
  /** False if the bytes are not a header block, or end within a field. */
  isWhole: boolean;
  /** Fields with an unknown name or value. */
  unknownFields: number;
}

interface Entry {
  name: string | null;
  value: string | null;
  bytes: number;
}

/** Overhead of an entry by RFC 7541, section 4.1. */
const entryOverheadBytes = 32;
/** Fields of one block that are emitted; further ones only update the table. */
const maxFieldsPerBlock = 256;
/** Longest name or value kept. */
const maxStringLength = 4096;
const maxInteger = 2 ** 28;
const noBytes = new Uint8Array();

export class HpackDecoder {
  readonly #maxTableBytes: number;
  readonly #isWanted: (name: string) => boolean;
  /** The newest is the last. */
  #entries: Entry[] = [];
  #tableBytes = 0;
  /** Until the sender changes it. */
  #senderLimit = 4096;
  #bytes: Uint8Array = noBytes;
  #position = 0;
  #end = 0;
  #isDamaged = false;
  #unknownFields = 0;

  constructor(options: HpackDecoderOptions = {}) {
    this.#maxTableBytes = options.maxTableBytes ?? 16_384;
    this.#isWanted = options.isWanted ?? (() => true);
  }

  /** Bytes of the dynamic table as HPACK counts them. */
  get tableBytes(): number {
    return this.#tableBytes;
  }

  /** A block was missed: positions in the table no longer match those of the sender. */
  forget(): void {
    this.#entries = [];
    this.#tableBytes = 0;
  }

  /** One whole block: HEADERS with its CONTINUATIONs, from `start` to `end` of the bytes. After an invalid one the table is cleared. */
  decode(block: Uint8Array, visit: FieldVisitor, start = 0, end = block.length): BlockResult {
    this.#bytes = block;
    this.#position = start;
    this.#end = end;
    this.#isDamaged = false;
    this.#unknownFields = 0;
    let fields = 0;
    const visitSome: FieldVisitor = (name, value) => {
      if (fields++ < maxFieldsPerBlock) visit(name, value);
    };
    while (this.#position < this.#end && !this.#isDamaged) this.#readField(visitSome);
    this.#bytes = noBytes;
    if (this.#isDamaged) this.forget();
    return { isWhole: !this.#isDamaged, unknownFields: this.#unknownFields };
  }

  #readField(visit: FieldVisitor): void {
    const first = this.#bytes[this.#position] ?? 0;
    if (first & 0x80) this.#readIndexed(visit);
    else if (first & 0x40) this.#readLiteral(6, true, visit);
    else if (first & 0x20) this.#resize(this.#readInteger(5));
    else this.#readLiteral(4, false, visit);
  }

  #readIndexed(visit: FieldVisitor): void {
    const index = this.#readInteger(7);
    if (this.#isDamaged || index === 0) {
      this.#isDamaged = true;
      return;
    }
    const entry = this.#entryAt(index);
    if (entry === undefined || entry.name === null) this.#unknownFields++;
    visit(entry?.name ?? null, entry?.value ?? null);
  }

  #readLiteral(prefixBits: number, isAdded: boolean, visit: FieldVisitor): void {
    const index = this.#readInteger(prefixBits);
    const name = index === 0 ? this.#readString(true) : (this.#entryAt(index)?.name ?? null);
    const start = this.#position;
    const value = this.#readString(name === null || this.#isWanted(name));
    if (this.#isDamaged) return;
    if (name === null) this.#unknownFields++;
    if (isAdded) {
      // Upper bound for the length of a skipped value: the shortest code has 5 bits.
      const valueBytes = value?.length ?? Math.ceil(((this.#position - start) * 8) / 5);
      this.#add({ name, value, bytes: (name?.length ?? 8) + valueBytes + entryOverheadBytes });
    }
    visit(name, value);
  }

  #entryAt(index: number): { name: string | null; value: string | null } | undefined {
    if (index <= staticEntryCount) return staticTable()[index - 1];
    return this.#entries[this.#entries.length - (index - staticEntryCount)];
  }

  #readInteger(prefixBits: number): number {
    const mask = (1 << prefixBits) - 1;
    let value = (this.#bytes[this.#position++] ?? 0) & mask;
    if (value < mask) return value;
    for (let shift = 0; shift <= 28; shift += 7) {
      if (this.#position >= this.#end) break;
      const byte = this.#bytes[this.#position++] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (value > maxInteger) break;
      if ((byte & 0x80) === 0) return value;
    }
    this.#isDamaged = true;
    return 0;
  }

  #readString(isKept: boolean): string | null {
    if (this.#isDamaged || this.#position >= this.#end) {
      this.#isDamaged = true;
      return null;
    }
    const isHuffman = ((this.#bytes[this.#position] ?? 0) & 0x80) !== 0;
    const length = this.#readInteger(7);
    const start = this.#position;
    if (this.#isDamaged || start + length > this.#end) {
      this.#isDamaged = true;
      return null;
    }
    this.#position += length;
    if (!isKept) return null;
    const kept = Math.min(length, maxStringLength);
    if (!isHuffman) return Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + start, kept).toString("latin1");
    const text = decodeHuffman(this.#bytes, start, length);
    if (text === null) this.#isDamaged = true;
    return text === null ? null : text.slice(0, maxStringLength);
  }

  /** An entry larger than the table clears the sender's table. When in doubt, clear ours, too: unknown is better than wrong. */
  #add(entry: Entry): void {
    if (entry.bytes > this.#senderLimit || entry.bytes > this.#maxTableBytes) {
      this.forget();
      return;
    }
    this.#entries.push(entry);
    this.#tableBytes += entry.bytes;
    this.#evict();
  }

  #resize(limitBytes: number): void {
    this.#senderLimit = limitBytes;
    this.#evict();
  }

  #evict(): void {
    const limitBytes = Math.min(this.#maxTableBytes, this.#senderLimit);
    let gone = 0;
    while (this.#tableBytes > limitBytes && gone < this.#entries.length) this.#tableBytes -= this.#entries[gone++]?.bytes ?? 0;
    if (gone > 0) this.#entries.splice(0, gone);
  }
}
