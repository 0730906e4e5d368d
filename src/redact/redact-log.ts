/** Removes secrets from log records before they are stored, by name and by shape. Ids stay, because users search for them. */

import { mask } from "./mask.ts";
import { isHarmlessValue, isSecretName } from "./secret-names.ts";
import { redactKnownShapes } from "./secret-shapes.ts";

/** Prefilter: a text without any of these names contains no named secret. */
const worthALook =
  /pass|pwd|secret|token|key|auth|cred|cookie|jwt|bearer|dsn|otp|pin|sig|seed|mnemonic|salt|hmac|psk|conn|license|\bpat\b|\bsas\b/i;
/** `"name":"value"` in JSON, also in JSON inside a string. */
const jsonPair = /(\\?")([A-Za-z_][\w.\- ]{0,60})\1(\s*:\s*)\1((?:[^"\\]|\\(?!").)*)\1/g;
/** `name=value`, `name: value`; values may be quoted. */
const pair = /([A-Za-z_][\w.-]{0,60})(\s?=\s?|:\s?(?!\/\/))("[^"]*"|'[^']*'|[^\s"'&;,{}()|]+)/g;
/** Names that are common in logs, such as `key` of a cache: masked only if the value looks like a secret. */
const everyday = /^(?:keys?|tokens?|auth|pin|sig|signature|seed|salt|license|pass)$/i;

/** Authentication scheme before a secret that is already masked. */
const scheme = /^(?:bearer|basic|digest|negotiate|token)$/i;

/** Limit on examined characters; the rest is truncated, because it was not checked. */
const maxLength = 64 * 1_024;

export function redactLogText(text: string): string {
  const looked = text.length > maxLength ? text.slice(0, maxLength) : text;
  const kept = redactPlain(looked);
  // Most texts contain no secret. If JSON does, it must stay valid JSON.
  return kept !== looked && /^[{[]/.test(looked) ? redactJson(looked) : kept;
}

/** A JSON string, and whether a colon follows, which makes it a name. */
const jsonText = /"((?:[^"\\]|\\.)*)"(\s*:)?/g;

function redactJson(json: string): string {
  let name = "";
  return json.replace(jsonText, (found: string, value: string, colon: string | undefined) => {
    if (colon !== undefined) {
      name = value;
      return found;
    }
    const kept = isSecret(name, value) ? mask : redactPlain(value);
    name = "";
    return kept === value ? found : `"${kept}"`;
  });
}

function redactPlain(looked: string): string {
  const shaped = redactKnownShapes(looked);
  if (!worthALook.test(shaped)) return shaped;
  const json = shaped.includes('":') || shaped.includes('" :') ? shaped.replace(jsonPair, maskJson) : shaped;
  return json.includes("=") || json.includes(":") ? json.replace(pair, maskPair) : json;
}

function maskJson(found: string, quote: string, name: string, separator: string, value: string): string {
  return isSecret(name, value) ? `${quote}${name}${quote}${separator}${quote}${mask}${quote}` : found;
}

function maskPair(found: string, name: string, separator: string, value: string): string {
  return isSecret(name, value.replace(/^["']|["']$/g, "")) ? `${name}${separator}${mask}` : found;
}

function isSecret(name: string, value: string): boolean {
  if (!isSecretName(name) || isHarmlessValue(name, value) || scheme.test(value)) return false;
  return !everyday.test(name) || (value.length >= 8 && /\d/.test(value) && /[A-Za-z]/.test(value));
}
