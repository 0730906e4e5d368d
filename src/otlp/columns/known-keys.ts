/** Attribute keys with their own column, found by their bytes. */

interface KnownKey {
  bytes: Uint8Array;
  id: number;
}

/** Hash buckets; a power of two. Resources have 7 known keys, spans a few dozen, so most buckets have one key at most. */
const slots = 256;

/** A fixed set of keys. A lookup compares bytes and creates no string. */
export class KnownKeys {
  readonly #buckets: KnownKey[][] = Array.from({ length: slots }, () => []);

  /** Each key with the number that `find` returns for it; several keys may share one. */
  constructor(keys: Iterable<readonly [key: string, id: number]>) {
    for (const [key, id] of keys) {
      const bytes = Buffer.from(key);
      this.#buckets[slotOf(bytes, 0, bytes.length)]?.push({ bytes, id });
    }
  }

  /** -1 for a key that is not known. */
  find(source: Uint8Array, start: number, end: number): number {
    const bucket = this.#buckets[slotOf(source, start, end)] as KnownKey[];
    for (const { bytes, id } of bucket) if (equals(bytes, source, start, end)) return id;
    return -1;
  }
}

function slotOf(source: Uint8Array, start: number, end: number): number {
  if (end === start) return 0;
  const middle = source[start + ((end - start) >> 1)] as number;
  return ((end - start) * 31 + (source[start] as number) * 7 + (source[end - 1] as number) * 13 + middle) & (slots - 1);
}

function equals(bytes: Uint8Array, source: Uint8Array, start: number, end: number): boolean {
  const { length } = bytes;
  if (end - start !== length) return false;
  for (let index = 0; index < length; index++) if (bytes[index] !== source[start + index]) return false;
  return true;
}
