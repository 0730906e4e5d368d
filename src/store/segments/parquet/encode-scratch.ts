/** Memory that the writer of segments uses again for each column: pages are compressed as soon as they are made, so one is needed at a time. */

import { scratchBytes } from "./scratch-bytes.ts";

const alignment = 8;

/** Where an encoder puts a page's values. */
export interface PageRoom {
  /** Once per page: so many bytes, at an address that is a multiple of 8. Not cleared. */
  take(sizeBytes: number): Uint8Array;
}

export class EncodeScratch {
  #rows = new Uint32Array(0);
  #values = new Uint32Array(0);
  #locals = new Int32Array(0);

  /** Room for values behind what a page begins with. `pageOf` gives both together, without a copy of the values. */
  page(before: Uint8Array): PageRoom & { pageOf(values: Uint8Array): Uint8Array } {
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

  /** Codes or levels of one column, until they are packed. */
  values(count: number): Uint32Array {
    if (this.#values.length < count) this.#values = new Uint32Array(count);
    return this.#values.subarray(0, count);
  }

  /** One number for each entry of a dictionary: -1. A user that changes entries resets them to -1. */
  locals(entries: number): Int32Array {
    if (this.#locals.length < entries) this.#locals = new Int32Array(entries * 2).fill(-1);
    return this.#locals;
  }
}

/** Room of its own, for a page that is kept as it is. */
export const ownRoom: PageRoom = { take: (sizeBytes) => new Uint8Array(sizeBytes) };
