/**
 * Reads header blocks of HTTP/2: RFC 7541. Made for an onlooker, who may come late or miss a block: an index into a part of the table that
 * was never seen gives `null`, and everything that is added afterwards is known again, because indexes count from the newest entry.
 */

import { decodeHuffman } from "./hpack-huffman.ts";
import { staticEntryCount, staticTable } from "./hpack-tables.ts";

/** Null stands for what is not known: added before the onlooker came, or a value that nobody wanted. */
export type FieldVisitor = (name: string | null, value: string | null) => void;

export interface HpackDecoderOptions {
  /** Memory for the dynamic table. Older entries than fit are unknown, never wrong. Default 16 KiB. */
  maxTableBytes?: number;
  /** Values of other names are skipped, not read. Default: all are wanted. */
  isWanted?: (name: string) => boolean;
}

export interface BlockResult {
  /** False when the bytes are no header block, or end within a field. */
  isWhole: boolean;
  /** Fields whose name or value is not known. */
  unknownFields: number;
}

interface Entry {
  name: string | null;
  value: string | null;
  bytes: number;
}

/** What RFC 7541, section 4.1 adds to the size of an entry. */
const entryOverheadBytes = 32;
/** Fields of one block that are told; more are read, for the table's sake, and not told. */
const maxFieldsPerBlock = 256;
/** Longest name or value that is kept. */
const maxStringLength = 4096;
const maxInteger = 2 ** 28;
const noBytes = new Uint8Array();

export class HpackDecoder {
  readonly #maxTableBytes: number;
  readonly #isWanted: (name: string) => boolean;
  /** The newest is the last. */
  #entries: Entry[] = [];
  #tableBytes = 0;
  /** Until the sender says otherwise. */
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

  /** A block was missed: what the table holds no longer stands where the sender counts it. */
  forget(): void {
    this.#entries = [];
    this.#tableBytes = 0;
  }

  /** One whole block: HEADERS with its CONTINUATIONs, from `start` to `end` of the bytes. After a damaged one the table is forgotten. */
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
      // The most that a value which was not read may have been: 5 bits are the shortest code.
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

  /** An entry that does not fit empties the sender's table. Where that is not certain, forgetting is still right: unknown, never wrong. */
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
