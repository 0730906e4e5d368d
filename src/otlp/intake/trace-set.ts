/** A bounded set of trace ids; the oldest are evicted. */

/** Fixed by W3C Trace Context. */
export const traceIdBytes = 16;

/** A number of 32 bits for a trace id, the same in every process: traces are chosen by it, so that hosts choose the same. */
export function traceHash(ids: Uint8Array, at: number): number {
  let hash = 0x2545f491;
  for (let index = 0; index < traceIdBytes; index++) {
    hash = Math.imul(hash ^ (ids[at + index] as number), 0x5bd1e995);
    hash ^= hash >>> 15;
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x21f0aaad);
  hash = Math.imul(hash ^ (hash >>> 15), 0x735a2d97);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** Stored as one flat array: 16 bytes per id and one map entry, instead of a string for each. */
export class TraceSet {
  readonly #maxIds: number;
  readonly #ids: Uint8Array;
  /** By hash: the newest index of an id with that hash. A collision only keeps one trace more. */
  readonly #places = new Map<number, number>();
  #next = 0;
  #count = 0;

  constructor(maxIds: number) {
    this.#maxIds = maxIds;
    this.#ids = new Uint8Array(maxIds * traceIdBytes);
  }

  get size(): number {
    return this.#places.size;
  }

  has(ids: Uint8Array, at: number): boolean {
    const place = this.#places.get(traceHash(ids, at));
    return place !== undefined && this.#isAt(place, ids, at);
  }

  /** False if it was already in the set. */
  add(ids: Uint8Array, at: number): boolean {
    const hash = traceHash(ids, at);
    const known = this.#places.get(hash);
    if (known !== undefined && this.#isAt(known, ids, at)) return false;
    const place = this.#next;
    this.#next = (place + 1) % this.#maxIds;
    if (this.#count === this.#maxIds) this.#forget(place);
    else this.#count++;
    this.#ids.set(ids.subarray(at, at + traceIdBytes), place * traceIdBytes);
    this.#places.set(hash, place);
    return true;
  }

  /** All of them, one after the other. */
  packed(): Uint8Array {
    const packed = new Uint8Array(this.#places.size * traceIdBytes);
    let to = 0;
    for (const place of this.#places.values()) {
      packed.set(this.#ids.subarray(place * traceIdBytes, (place + 1) * traceIdBytes), to);
      to += traceIdBytes;
    }
    return packed;
  }

  #forget(place: number): void {
    const hash = traceHash(this.#ids, place * traceIdBytes);
    if (this.#places.get(hash) === place) this.#places.delete(hash);
  }

  #isAt(place: number, ids: Uint8Array, at: number): boolean {
    for (let index = 0; index < traceIdBytes; index++) if (this.#ids[place * traceIdBytes + index] !== ids[at + index]) return false;
    return true;
  }
}
