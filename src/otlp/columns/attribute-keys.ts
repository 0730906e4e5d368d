/**
 * Caches attribute keys by code: each key is analysed once, however often it occurs. Spans of one kind have the same keys in the
 * same order, so the key that followed last time is tried first: one comparison instead of a search.
 */

import { type Secrecy, secrecyOfName } from "../../redact/index.ts";
import { ByteDictionary } from "./byte-dictionary.ts";
import { type ByteSource, ByteWriter, sourceOf } from "./byte-writer.ts";
import type { KnownKeys } from "./known-keys.ts";

/** The cache is cleared when full: a sender of always new keys costs time, not memory. */
const maxRemembered = 4_096;

/** Codes of keys with what is derived from each: its number among the known keys, its secrecy, and its JSON. */
export class AttributeKeys {
  readonly #known: KnownKeys | undefined;
  #names = new ByteDictionary(4_096);
  /** By code. */
  #ids: number[] = [];
  #secrecies: Secrecy[] = [];
  #followers: number[] = [];
  /** `"key":` of each code; it ends where the next one begins. */
  #json = new ByteWriter(4_096);
  #jsonStarts: number[] = [];
  #last = 0;

  /** `known`: keys that `idOf` returns numbers for. */
  constructor(known?: KnownKeys) {
    this.#known = known;
    this.#forget();
  }

  /** The code of a key, valid until the next call. */
  codeOf(source: ByteSource, start: number, end: number): number {
    const expected = this.#followers[this.#last] as number;
    if (!this.#names.isAt(expected, source, start, end)) return this.#find(source, start, end);
    this.#last = expected;
    return expected;
  }

  /** Its number among the known keys, or -1. */
  idOf(code: number): number {
    return this.#ids[code] as number;
  }

  secrecyOf(code: number): Secrecy {
    return this.#secrecies[code] as Secrecy;
  }

  /** Adds `"key":`. */
  writeTo(out: ByteWriter, code: number): void {
    out.copyFrom(this.#json, this.#jsonStarts[code] as number, this.#jsonStarts[code + 1] as number);
  }

  #find(source: ByteSource, start: number, end: number): number {
    if (this.#names.entries > maxRemembered) this.#forget();
    const code = this.#names.codeOf(source, start, end);
    if (code === this.#ids.length) this.#learn(code, source, start, end);
    this.#followers[this.#last] = code;
    this.#last = code;
    return code;
  }

  #learn(code: number, { bytes }: ByteSource, start: number, end: number): void {
    this.#ids.push(this.#known?.find(bytes, start, end) ?? -1);
    this.#secrecies.push(secrecyOfName(this.#names.textOf(code)));
    this.#followers.push(0);
    this.#json.jsonString(bytes, start, end);
    this.#json.byte(0x3a);
    this.#jsonStarts.push(this.#json.size);
  }

  #forget(): void {
    this.#names = new ByteDictionary(4_096);
    this.#ids = [];
    this.#secrecies = [];
    this.#followers = [];
    this.#json = new ByteWriter(4_096);
    this.#jsonStarts = [0];
    this.#last = 0;
    // Code 0 of a dictionary: a key without a name.
    this.#learn(0, sourceOf(new Uint8Array(0)), 0, 0);
  }
}
