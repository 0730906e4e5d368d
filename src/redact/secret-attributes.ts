/** Decides which OpenTelemetry attributes are secrets: by key, and by a quick check of the value's bytes. */

import { isHarmlessValue, isSecretName } from "./secret-names.ts";
import { looksRandom } from "./secret-shapes.ts";

/** `all`: whatever the value; `texts`: if the value looks like a secret. */
export type Secrecy = "none" | "texts" | "all";

/** Last words of names that are usually harmless: `messaging.kafka.message.key`, `feature_flag.key`, `page.token`. */
const everyday = /(?:^|[^a-z])(?:keys?|tokens?|auth|pin|sig|signature|seed|salt|license|pass)$/i;
/** First words that make such a name a secret after all. */
const compound =
  /(?:api|access|private|account|shared|signing|encryption|master|auth|refresh|bearer|csrf|session)[_.-]?(?:keys?|tokens?)$/i;

/** Arguments contain passwords in program-specific ways. Discovery reads command lines itself, and redacts them by program. */
const commandLine = /^process\.command_(?:args|line)$/;

export function secrecyOfName(name: string): Secrecy {
  if (commandLine.test(name)) return "all";
  if (!isSecretName(name)) return "none";
  return everyday.test(name) && !compound.test(name) ? "texts" : "all";
}

/** Whether an attribute value with secrecy `texts` is a secret. */
export function isSecretAttribute(text: string): boolean {
  if (isHarmlessValue("token", text)) return false;
  return looksRandom(text, 16);
}

/** First bytes of secrets that have a recognisable form. */
const beginnings: ReadonlySet<number> = new Set(
  "eyJ AKI ASI ARO AID ANP AGP ABI ACC ghp gho ghu ghs ghr git glp gld glr glc gls xox xap sk_ pk_ rk_ whs sk- AIz ya2 GOC SG. key npm pyp dop hf_ dap hvs hvb hvr shp sq0 NRA lin fig cfu PMA ATA EAA AGE $2a $2b $2y $5$ $6$ $y$ $ar Bea bea BEA Bas bas BAS"
    .split(" ")
    .map((text) => (text.charCodeAt(0) << 16) | (text.charCodeAt(1) << 8) | text.charCodeAt(2)),
);

/** `=`, `"`, space and `@` surround secrets within a text. */
const around = new Uint8Array(256);
for (const character of '="@ ') around[character.charCodeAt(0)] = 1;

/** No recognised secret is shorter. */
const minSecretBytes = 8;

/** A text without one of these prefixes and without a space, `=`, `@` or a quote does not have the form of a secret. */
export function beginsLikeSecret(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start < minSecretBytes) return false;
  return beginnings.has(((bytes[start] as number) << 16) | ((bytes[start + 1] as number) << 8) | (bytes[start + 2] as number));
}

/** Whether the text must be decoded for a full check: false for nearly all, decided by bytes alone. */
export function mayHoldSecret(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start < minSecretBytes) return false;
  if (beginsLikeSecret(bytes, start, end)) return true;
  for (let index = start; index < end; index++) if (around[bytes[index] as number] === 1) return true;
  return false;
}
