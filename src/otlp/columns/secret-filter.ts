/**
 * Removes secrets from attributes while they are decoded, by the rules of src/redact. Hundreds of thousands of spans may arrive per second, so results
 * are cached, by text and by code.
 */

import { isSecretAttribute, mask, mayHoldSecret, redactLogText, type Secrecy } from "../../redact/index.ts";
import type { ByteDictionary } from "./byte-dictionary.ts";
import type { ByteSource } from "./byte-writer.ts";

/** Cached texts. The cache is cleared when full: a sender of always new texts costs time, not memory. */
const maxRemembered = 4_096;
/** Characters. Longer texts are checked each time, which bounds the cache. */
const maxRememberedLength = 1_024;

const unchecked = -1;

/** One per decoder. Results for codes are valid for one batch of a dictionary, results for texts until the cache is full. */
export class SecretFilter {
  readonly #texts = new Map<string, string>();
  /** Stored codes by code of the batch's dictionary. */
  #kept = new Int32Array(1_024).fill(unchecked);
  #keptOf: { dictionary: ByteDictionary; batch: number } | undefined;

  /** The replacement for the text in [start, end), given the secrecy of its name; undefined: store it unchanged. */
  instead(bytes: Uint8Array, start: number, end: number, secrecy: Secrecy): string | undefined {
    if (end === start) return undefined;
    if (secrecy === "all") return mask;
    if (secrecy === "none" && !mayHoldSecret(bytes, start, end)) return undefined;
    const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("utf8");
    if (secrecy === "texts" && isSecretAttribute(text)) return mask;
    const kept = this.#check(text);
    return kept === text ? undefined : kept;
  }

  /**
   * The stored code of a text without a name. Each text is checked once per batch. A text with a secret keeps its own code in the dictionary, but
   * only entries that rows refer to are stored.
   */
  codeIn(dictionary: ByteDictionary, source: ByteSource, start: number, end: number): number {
    const code = dictionary.codeOf(source, start, end);
    if (this.#keptOf?.dictionary !== dictionary || this.#keptOf.batch !== dictionary.batch || code >= this.#kept.length)
      this.#grow(dictionary);
    const known = this.#kept[code] as number;
    if (known !== unchecked) return known;
    const instead = this.instead(source.bytes, start, end, "none");
    const kept = instead === undefined ? code : dictionary.codeOfText(instead);
    this.#kept[code] = kept;
    return kept;
  }

  #grow(dictionary: ByteDictionary): void {
    const isSame = this.#keptOf?.dictionary === dictionary && this.#keptOf.batch === dictionary.batch;
    this.#keptOf = { dictionary, batch: dictionary.batch };
    if (!isSame) this.#kept.fill(unchecked);
    if (dictionary.entries <= this.#kept.length) return;
    const kept = new Int32Array(dictionary.entries * 2).fill(unchecked);
    if (isSame) kept.set(this.#kept);
    this.#kept = kept;
  }

  #check(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const kept = redactLogText(text);
    if (text.length > maxRememberedLength) return kept;
    if (this.#texts.size >= maxRemembered) this.#texts.clear();
    this.#texts.set(text, kept);
    return kept;
  }
}
