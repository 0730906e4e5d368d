/** Codes for byte strings that repeat, without making JavaScript strings of them. One serves all dictionary columns of a batch. */

import { type ByteSource, ByteWriter, sourceOf } from "./byte-writer.ts";

/** Longest chain of collisions. Beyond it, bytes get a second entry, so that no sender can slow down lookups. */
const maxProbes = 32;
const noBytes = sourceOf(new Uint8Array(0));
/** Enough for 250,000 strings. */
const maxKeptSlots = 2 ** 19;
/** Random per process: a sender cannot choose colliding keys. */
const seed = (Math.random() * 2 ** 32) | 0;

/** Open addressing with linear probing; the table is at most half full. */
export class ByteDictionary {
  readonly #writer: ByteWriter;
  #offsets = new Uint32Array(1_024);
  #hashes = new Int32Array(1_024);
  #slots = new Int32Array(4_096).fill(-1);
  #count = 0;
  #texts: (string | undefined)[] = [];
  #batch = 0;

  /** Code 0 is the empty string. */
  constructor(initialBytes = 64 * 1_024) {
    this.#writer = new ByteWriter(initialBytes);
    this.codeOf(noBytes, 0, 0);
  }

  /** Rises with each `reset`. */
  get batch(): number {
    return this.#batch;
  }

  /** Drops all codes, and shrinks oversized arrays. */
  reset(): void {
    this.#batch++;
    this.#count = 0;
    this.#texts = [];
    this.#writer.reset();
    if (this.#slots.length > maxKeptSlots) {
      this.#slots = new Int32Array(maxKeptSlots);
      this.#offsets = new Uint32Array(1_024);
      this.#hashes = new Int32Array(1_024);
    }
    this.#slots.fill(-1);
    this.codeOf(noBytes, 0, 0);
  }

  get entries(): number {
    return this.#count;
  }

  get sizeBytes(): number {
    return this.#writer.size;
  }

  /** The code of these bytes; a new one for new bytes. */
  codeOf(source: ByteSource, start: number, end: number): number {
    const hash = hashOf(source, start, end);
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (let probe = 0; probe < maxProbes; probe++) {
      const code = this.#slots[slot] as number;
      if (code < 0) return this.#add(source, start, end, hash, slot);
      if (this.#hashes[code] === hash && this.isAt(code, source, start, end)) return code;
      slot = (slot + 1) & mask;
    }
    return this.#add(source, start, end, hash, -1);
  }

  /** The code of a text that is not part of a request. */
  codeOfText(text: string): number {
    const bytes = Buffer.from(text);
    return this.codeOf(sourceOf(bytes), 0, bytes.length);
  }

  /** The text of a code; decoded once. */
  textOf(code: number): string {
    const known = this.#texts[code];
    if (known !== undefined) return known;
    const text = this.#writer.bytes.toString("utf8", this.#offsets[code] ?? 0, this.#offsets[code + 1] ?? 0);
    this.#texts[code] = text;
    return text;
  }

  /** Entry `c` is `bytes[offsets[c], offsets[c + 1])`. Valid until the next code is requested. */
  packed(): { bytes: Uint8Array; offsets: Uint32Array } {
    return { bytes: this.#writer.bytes.subarray(0, this.#writer.size), offsets: this.#offsets.subarray(0, this.#count + 1) };
  }

  /** Whether the entry of a code has these bytes. */
  isAt(code: number, source: ByteSource, start: number, end: number): boolean {
    const from = this.#offsets[code] as number;
    const length = end - start;
    if ((this.#offsets[code + 1] as number) - from !== length) return false;
    const { view: own } = this.#writer;
    const { view } = source;
    if (length < 4) {
      for (let at = 0; at < length; at++) if (own.getUint8(from + at) !== view.getUint8(start + at)) return false;
      return true;
    }
    for (let at = 0; at < length - 4; at += 4) if (own.getInt32(from + at, true) !== view.getInt32(start + at, true)) return false;
    // The last four bytes; some may be compared twice.
    return own.getInt32(from + length - 4, true) === view.getInt32(end - 4, true);
  }

  #add(source: ByteSource, start: number, end: number, hash: number, slot: number): number {
    const code = this.#count++;
    if (code + 2 > this.#offsets.length) this.#growEntries();
    this.#hashes[code] = hash;
    this.#writer.utf8(source.bytes, start, end);
    this.#offsets[code + 1] = this.#writer.size;
    if (slot >= 0) this.#slots[slot] = code;
    if (this.#count * 2 > this.#slots.length) this.#rehash();
    return code;
  }

  #growEntries(): void {
    const offsets = new Uint32Array(this.#offsets.length * 2);
    offsets.set(this.#offsets);
    this.#offsets = offsets;
    const hashes = new Int32Array(this.#hashes.length * 2);
    hashes.set(this.#hashes);
    this.#hashes = hashes;
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2).fill(-1);
    const mask = slots.length - 1;
    for (let code = 0; code < this.#count; code++) {
      let slot = (this.#hashes[code] as number) & mask;
      for (let probe = 0; probe < maxProbes; probe++, slot = (slot + 1) & mask) {
        if ((slots[slot] as number) >= 0) continue;
        slots[slot] = code;
        break;
      }
    }
    this.#slots = slots;
  }
}

/** Seeded per process. Reads four bytes per step, because the steps depend on each other and reads do not. */
export function hashOf({ view }: ByteSource, start: number, end: number): number {
  let hash = seed ^ (end - start);
  let at = start;
  for (const last = end - 4; at <= last; at += 4) {
    hash = Math.imul(hash ^ view.getInt32(at, true), 0x5bd1e995);
    hash ^= hash >>> 15;
  }
  for (; at < end; at++) {
    hash = Math.imul(hash ^ view.getUint8(at), 0x5bd1e995);
    hash ^= hash >>> 15;
  }
  return hash;
}
