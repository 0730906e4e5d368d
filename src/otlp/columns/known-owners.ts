import { type ByteDictionary, hashOf } from "./byte-dictionary.ts";
import type { ByteSource } from "./byte-writer.ts";

/** Larger resources usually have many rows, so reading them again costs little in comparison. */
const maxOwnerBytes = 2_048;
/** At most 2 MiB in total; others are read each time. */
const maxOwners = 1_024;

interface KnownOwner<Codes> {
  /** Of a copy of its bytes. */
  view: DataView;
  codes: Codes;
}

/** Caches resources or scopes by their bytes while the codes of a dictionary are valid: small requests repeat theirs every time. */
export class KnownOwners<Codes> {
  readonly #dictionary: ByteDictionary;
  readonly #known = new Map<number, KnownOwner<Codes>>();
  #batch = 0;

  constructor(dictionary: ByteDictionary) {
    this.#dictionary = dictionary;
  }

  /** The cached value for the bytes in [start, end) of this batch. */
  find(source: ByteSource, start: number, end: number): Codes | undefined {
    if (end - start > maxOwnerBytes) return undefined;
    this.#forgetOld();
    const known = this.#known.get(hashOf(source, start, end));
    return known !== undefined && isEqual(known.view, source.view, start, end) ? known.codes : undefined;
  }

  /** Caches `codes` for the bytes in [start, end), unless they are too long or the cache is full. */
  keep(source: ByteSource, start: number, end: number, codes: Codes): void {
    if (end - start > maxOwnerBytes || this.#known.size >= maxOwners) return;
    // A buffer's own slice would not copy.
    const copy = new Uint8Array(source.bytes.subarray(start, end));
    this.#known.set(hashOf(source, start, end), { view: new DataView(copy.buffer), codes });
  }

  #forgetOld(): void {
    const { batch } = this.#dictionary;
    if (this.#batch === batch) return;
    this.#batch = batch;
    this.#known.clear();
  }
}

function isEqual(own: DataView, view: DataView, start: number, end: number): boolean {
  const length = end - start;
  if (own.byteLength !== length) return false;
  let at = 0;
  for (; at <= length - 4; at += 4) if (own.getInt32(at) !== view.getInt32(start + at)) return false;
  for (; at < length; at++) if (own.getUint8(at) !== view.getUint8(start + at)) return false;
  return true;
}
