/**
 * Removes secrets from attributes while they are read. What a secret is, src/redact decides. Spans arrive by the hundred thousand, so results are
 * cached, by text and by code.
 */

import { isSecretAttribute, mask, mayHoldSecret, redactLogText, type Secrecy } from "../../redact/index.ts";
import type { ByteDictionary } from "./byte-dictionary.ts";
import type { ByteSource } from "./byte-writer.ts";

/** Texts that are remembered; then all are forgotten, so that a sender of ever new ones costs time and no memory. */
const maxRemembered = 4_096;
const maxRememberedLength = 1_024;

const notLookedAt = -1;

export class SecretFilter {
  readonly #texts = new Map<string, string>();
  /** Of the texts of one batch of a dictionary: what is stored for them. */
  #kept = new Int32Array(1_024).fill(notLookedAt);
  #keptOf: { dictionary: ByteDictionary; batch: number } | undefined;

  /** What is to be stored instead of the text in [start, end) that has a name of this secrecy; undefined: the text itself. */
  instead(bytes: Uint8Array, start: number, end: number, secrecy: Secrecy): string | undefined {
    if (end === start) return undefined;
    if (secrecy === "all") return mask;
    if (secrecy === "none" && !mayHoldSecret(bytes, start, end)) return undefined;
    const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("utf8");
    if (secrecy === "texts" && isSecretAttribute(text)) return mask;
    const kept = this.#look(text);
    return kept === text ? undefined : kept;
  }

  /**
   * The code of a text without a name, as it is stored. A text is looked at once in a batch; one with a secret has a code of its own, but of a
   * dictionary only what rows have is stored.
   */
  codeIn(dictionary: ByteDictionary, source: ByteSource, start: number, end: number): number {
    const code = dictionary.codeOf(source, start, end);
    if (this.#keptOf?.dictionary !== dictionary || this.#keptOf.batch !== dictionary.batch || code >= this.#kept.length)
      this.#makeRoom(dictionary);
    const known = this.#kept[code] as number;
    if (known !== notLookedAt) return known;
    const instead = this.instead(source.bytes, start, end, "none");
    const kept = instead === undefined ? code : dictionary.codeOfText(instead);
    this.#kept[code] = kept;
    return kept;
  }

  #makeRoom(dictionary: ByteDictionary): void {
    const isSame = this.#keptOf?.dictionary === dictionary && this.#keptOf.batch === dictionary.batch;
    this.#keptOf = { dictionary, batch: dictionary.batch };
    if (!isSame) this.#kept.fill(notLookedAt);
    if (dictionary.entries <= this.#kept.length) return;
    const kept = new Int32Array(dictionary.entries * 2).fill(notLookedAt);
    if (isSame) kept.set(this.#kept);
    this.#kept = kept;
  }

  #look(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const kept = redactLogText(text);
    if (text.length > maxRememberedLength) return kept;
    if (this.#texts.size >= maxRemembered) this.#texts.clear();
    this.#texts.set(text, kept);
    return kept;
  }
}
