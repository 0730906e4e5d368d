/**
 * Removes secrets from attributes while they are read: by key, and by the form of the value. Spans arrive by the hundred thousand, so values are
 * scanned only where their bytes make it worthwhile, and results are cached.
 */

import { isHarmlessValue, isSecretName, looksRandom, mask, redactLogText } from "../../redact/index.ts";
import type { ByteDictionary } from "./byte-dictionary.ts";
import type { ByteSource } from "./byte-writer.ts";

/** Texts that are remembered; then all are forgotten, so that a sender of ever new ones costs time and no memory. */
const maxRemembered = 4_096;
const maxRememberedLength = 1_024;

/** `all`: whatever its value is; `texts`: when the value looks like one. */
export type Secrecy = "none" | "texts" | "all";

/** Last words of names that mostly stand for harmless things: `messaging.kafka.message.key`, `feature_flag.key`, `page.token`. */
const everyday = /(?:^|[^a-z])(?:keys?|tokens?|auth|pin|sig|signature|seed|salt|license|pass)$/i; /** With these before them they do not. */
const compound =
  /(?:api|access|private|account|shared|signing|encryption|master|auth|refresh|bearer|csrf|session)[_.-]?(?:keys?|tokens?)$/i;

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
    if (secrecy === "none" && !isWorthALook(bytes, start, end)) return undefined;
    const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("utf8");
    if (secrecy === "texts" && isSecretText(text)) return mask;
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

/** Arguments hold passwords in ways that only their program knows. Discovery reads command lines itself, and redacts them as such. */
const commandLine = /^process\.command_(?:args|line)$/;

export function secrecyOfName(name: string): Secrecy {
  if (commandLine.test(name)) return "all";
  if (!isSecretName(name)) return "none";
  return everyday.test(name) && !compound.test(name) ? "texts" : "all";
}

function isSecretText(text: string): boolean {
  if (isHarmlessValue("token", text)) return false;
  return looksRandom(text, 16);
}

/** First bytes of secrets that are recognised by their form alone. */
const beginnings: ReadonlySet<number> = new Set(
  "eyJ AKI ASI ARO AID ANP AGP ABI ACC ghp gho ghu ghs ghr git glp gld glr glc gls xox xap sk_ pk_ rk_ whs sk- AIz ya2 GOC SG. key npm pyp dop hf_ dap hvs hvb hvr shp sq0 NRA lin fig cfu PMA ATA EAA AGE $2a $2b $2y $5$ $6$ $y$ $ar Bea bea BEA Bas bas BAS"
    .split(" ")
    .map((text) => (text.charCodeAt(0) << 16) | (text.charCodeAt(1) << 8) | text.charCodeAt(2)),
);

/** `=`, `"`, space and `@` stand around secrets within a text. */
const around = new Uint8Array(256);
for (const character of '="@ ') around[character.charCodeAt(0)] = 1;

/** No secret is shorter. */
const minSecretBytes = 8;

/** A text without one of these prefixes and without a space, `=`, `@` or a quote does not have the form of a secret. */
export function beginsLikeSecret(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start < minSecretBytes) return false;
  return beginnings.has(((bytes[start] as number) << 16) | ((bytes[start + 1] as number) << 8) | (bytes[start + 2] as number));
}

function isWorthALook(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start < minSecretBytes) return false;
  if (beginsLikeSecret(bytes, start, end)) return true;
  for (let index = start; index < end; index++) if (around[bytes[index] as number] === 1) return true;
  return false;
}
