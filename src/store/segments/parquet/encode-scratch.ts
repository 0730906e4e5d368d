/**
 * Memory that the segment writer reuses for each column: pages are compressed as soon as they are encoded, so only one is needed at a time.
 */

import { scratchBytes } from "./scratch-bytes.ts";

const alignment = 8;

/** Allocates the memory for a page's values. */
export interface PageMemory {
  /** Call once per page. Returns so many bytes at an address that is a multiple of 8. Not cleared. */
  take(sizeBytes: number): Uint8Array;
}

export class EncodeScratch {
  #rows = new Uint32Array(0);
  #values = new Uint32Array(0);
  #locals = new Int32Array(0);

  /** Memory for values after the start of a page. `pageOf` returns both together without copying the values. */
  page(before: Uint8Array): PageMemory & { pageOf(values: Uint8Array): Uint8Array } {
    const start = Math.ceil(before.length / alignment) * alignment;
    return {
      take: (sizeBytes) => {
        const buffer = scratchBytes(start + sizeBytes);
        new Uint8Array(buffer).set(before, start - before.length);
        return new Uint8Array(buffer, start, sizeBytes);
      },
      pageOf: (values) => new Uint8Array(values.buffer, values.byteOffset - before.length, before.length + values.length),
    };
  }

  /** Row numbers of one column. */
  rows(count: number): Uint32Array {
    if (this.#rows.length < count) this.#rows = new Uint32Array(count);
    return this.#rows.subarray(0, count);
  }

  /** Codes or levels of one column, before they are packed. */
  values(count: number): Uint32Array {
    if (this.#values.length < count) this.#values = new Uint32Array(count);
    return this.#values.subarray(0, count);
  }

  /** One number per dictionary entry, initially -1. Callers that change entries must reset them to -1. */
  locals(entries: number): Int32Array {
    if (this.#locals.length < entries) this.#locals = new Int32Array(entries * 2).fill(-1);
    return this.#locals;
  }
}

/** Newly allocated memory, for a page that is kept. */
export const newMemory: PageMemory = { take: (sizeBytes) => new Uint8Array(sizeBytes) };
