/**
 * Redacts secrets of a request before it leaves the process: by the names of headers, parameters and keys, and by the look of values. An ambiguous
 * value is masked. The result is printable: no control character can reach a terminal.
 */

import { mask } from "./mask.ts";
import { redactPersonal } from "./personal-shapes.ts";
import { isSecretName } from "./secret-names.ts";
import { isSecretSegment, looksLikePhrase } from "./secret-segments.ts";
import { redactShapes } from "./secret-shapes.ts";

/** Limits on kept characters. */
const maxTargetLength = 2048;
const maxHeaderLength = 512;
const maxBodyLength = 4096;
const maxHeaders = 64;
/** Maximum nesting of JSON inside JSON strings. */
const maxDepth = 3;

/** Personal data, in addition to the rules for settings and command lines: payment and identity numbers. */
const personalName =
  /\bcard\b|card.?(?:number|no)|\bpan\b|cvv|cvc|(?:^|[^a-z])ssn\b|social.?security|iban|\bbic\b|passport|tax.?id|birth|\bdob\b|e-?mail|phone|mobile.?(?:number|no)\b|national.?id|licen[cs]e.?(?:number|no|plate)/i;
/** Bearer values: sessions, and codes exchanged for one. Short values are states and countries. */
const sessionName =
  /^(?:[a-z]{0,4}sess(?:ion)?[._-]?(?:id|key)?|(?:connect\.)?sid|asp\.net_sessionid|code|state|nonce|ticket|assertion|saml\w+)$/i;
const minSessionLength = 8;
/** Headers whose whole value is masked, although their names do not suggest it. */
const secretHeader =
  /^(?:cookie2?|set-cookie2?|authorization|proxy-authorization|authentication-info|x-forwarded-client-cert|x-amz-security-token)$/;
/** Headers that contain a URL with a query. */
const addressHeader = /^(?:referer|location|content-location|link|origin|refresh|destination|x-original-url|x-rewrite-url|:path)$/;

function isSecret(name: string): boolean {
  return isSecretName(name) || personalName.test(name);
}

function isSecretPair(name: string, value: string): boolean {
  return isSecret(name) || (value.length >= minSessionLength && sessionName.test(name));
}

/** Escapes control characters and marks that reverse the text direction. */
export function escapeControls(text: string): string {
  let escaped = "";
  let from = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    const isControl =
      (code < 0x20 && code !== 0x0a && code !== 0x09) ||
      (code >= 0x7f && code <= 0x9f) ||
      (code >= 0x200b && code <= 0x200f) ||
      (code >= 0x2028 && code <= 0x202e) ||
      (code >= 0x2066 && code <= 0x2069) ||
      code === 0xfeff;
    if (!isControl) continue;
    escaped += `${text.slice(from, index)}\\u${code.toString(16).padStart(4, "0")}`;
    from = index + 1;
  }
  return from === 0 ? text : escaped + text.slice(from);
}

/** For one line: escapes line breaks too. */
function escapeLine(text: string): string {
  return escapeControls(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}

/** Proxies and clients encode values that are already encoded. */
const maxEncodings = 3;

function decoded(text: string): string {
  let plain = text.replaceAll("+", " ");
  for (let count = 0; count < maxEncodings && plain.includes("%"); count++) {
    try {
      const next = decodeURIComponent(plain);
      if (next === plain) break;
      plain = next;
    } catch {
      // Not percent-encoded: used as it is.
      return count === 0 ? text : plain;
    }
  }
  return plain;
}

/** In paths and typed queries, `+` is the plus of a phone number, not a space. */
function isPersonalAsWritten(text: string): boolean {
  return text.includes("+") && redactPersonal(text) !== text;
}

/** Masks secrets and personal data by shape. */
function redactValue(text: string): string {
  const clean = redactPersonal(redactShapes(text));
  return clean.includes("%") ? clean.replace(encodedRun, redactEncoded) : clean;
}

/** Text with percent-encoded characters, up to characters that cannot be part of an encoded value. */
const encodedRun = /[^\s"'<>&=;,{}()[\]?/#]{0,256}%[0-9A-Fa-f]{2}[^\s"'<>&=;,{}()[\]?/#]{0,512}/g;

function redactEncoded(run: string): string {
  const plain = decoded(run);
  return plain === run || redactPersonal(redactShapes(plain)) === plain ? run : mask;
}

/** `a=b&c=d`, also separated by `;`. */
function redactPairs(text: string): string {
  return text.replace(/([^&;=?#]+)=([^&;#]*)/g, (whole, name: string, value: string) => {
    if (value === "") return whole;
    const plain = decoded(value);
    if (isSecretPair(decoded(name), plain) || looksLikePhrase(plain) || isPersonalAsWritten(value)) return `${name}=${mask}`;
    const clean = redactUrls(redactValue(plain));
    return clean === plain ? whole : `${name}=${clean === mask ? mask : encodeURI(clean)}`;
  });
}

function redactUrls(text: string): string {
  return text.includes("?") && text.includes("=") ? text.replace(/\?[^\s"'<>]*/g, (query) => redactPairs(query)) : text;
}

/** A request target or URL without its fragment; secrets in path, query and userinfo are masked. */
export function redactTarget(target: string): string {
  const [beforeFragment = ""] = cut(target, maxTargetLength).split("#", 1);
  const mark = beforeFragment.indexOf("?");
  const path = mark === -1 ? beforeFragment : beforeFragment.slice(0, mark);
  const query = mark === -1 ? "" : redactPairs(beforeFragment.slice(mark));
  const withoutUser = path.replace(/^([a-z][a-z0-9+.-]*:)?\/\/[^/@]*@/i, (_, scheme?: string) => `${scheme ?? ""}//${mask}@`);
  return escapeLine(redactPath(withoutUser) + query);
}

/** Works by segment, because a whole path looks random sooner than its parts. After a word such as `token`, anything but a plain word is masked. */
function redactPath(path: string): string {
  let parent = "";
  return path
    .split("/")
    .map((segment) => {
      const [name = "", ...parameters] = segment.split(";");
      const plain = decoded(name);
      const isGiven = isSecretSegment(parent, plain) || (isSecret(parent) && /\d|[a-z][A-Z]/.test(plain) && plain.length >= 6);
      parent = plain;
      const clean = isGiven || redactValue(plain) !== plain || isPersonalAsWritten(name) ? mask : name;
      return parameters.length === 0 ? clean : `${clean};${redactPairs(parameters.join(";"))}`;
    })
    .join("/");
}

function redactHeader(name: string, value: string): string {
  if (value === "") return "";
  if (/^(?:proxy-)?authorization$/.test(name))
    return /^[A-Za-z-]{1,20} ./.test(value) ? `${value.slice(0, value.indexOf(" "))} ${mask}` : mask;
  // Binary metadata of gRPC cannot be inspected.
  if (secretHeader.test(name) || isSecret(name) || name.endsWith("-bin")) return mask;
  const short = cut(value, maxHeaderLength);
  return escapeLine(addressHeader.test(name) ? redactValue(redactTarget(short)) : redactUrls(redactValue(short)));
}

/** Pseudo-headers are reported in other fields, except for the server name. */
export function redactHeaders(headers: readonly (readonly [name: string, value: string])[]): [string, string][] {
  return headers
    .filter(([name]) => !name.startsWith(":") || name === ":authority")
    .slice(0, maxHeaders)
    .map(([name, value]) => [escapeLine(cut(name, 128)), redactHeader(name.toLowerCase(), value)]);
}

/** The end of the value that starts at `at`: a string, a number or word, or everything in brackets. */
function jsonValueEnd(text: string, at: number): number {
  const first = text[at];
  if (first === '"') {
    for (let index = at + 1; index < text.length; index++) {
      if (text[index] === "\\") index++;
      else if (text[index] === '"') return index + 1;
    }
    return text.length;
  }
  if (first !== "{" && first !== "[") {
    const rest = /^[^,}\]\s]*/.exec(text.slice(at));
    return at + (rest?.[0].length ?? 0);
  }
  let depth = 0;
  for (let index = at; index < text.length; ) {
    const character = text[index];
    if (character === '"') {
      index = jsonValueEnd(text, index);
      continue;
    }
    if (character === "{" || character === "[") depth++;
    if ((character === "}" || character === "]") && --depth === 0) return index + 1;
    index++;
  }
  return text.length;
}

/** Also works on a truncated document, which a parser would reject. */
function redactJson(text: string, depth: number): string {
  const key = /"((?:[^"\\]|\\.){1,128})"\s*:\s*/g;
  let result = "";
  let from = 0;
  for (let found = key.exec(text); found !== null; found = key.exec(text)) {
    const start = key.lastIndex;
    const end = jsonValueEnd(text, start);
    if (!isSecretPair(found[1] ?? "", text.slice(start + 1, end - 1))) continue;
    result += `${text.slice(from, start)}"${mask}"`;
    from = end;
    key.lastIndex = Math.max(end, start);
  }
  return redactStrings(result + text.slice(from), depth);
}

/** Strings in JSON may hold anything: nested JSON, a GraphQL query, a URL. */
function redactStrings(json: string, depth: number): string {
  if (depth >= maxDepth) return json;
  return json.replace(/"(?:[^"\\]|\\[\s\S])*(?:"|\\?$)/g, (literal) => {
    if (!/[:=]/.test(literal)) return literal;
    const whole = parseString(literal);
    const inner = whole ?? parseString(`${literal.replace(/\\(?:u[0-9a-f]{0,3})?$/i, "")}"`);
    if (inner === null) return redactText(literal);
    const clean = redactByType(inner, "", depth + 1);
    if (clean === inner) return literal;
    return whole === null ? JSON.stringify(clean).slice(0, -1) : JSON.stringify(clean);
  });
}

function parseString(literal: string): string | null {
  try {
    return String(JSON.parse(literal));
  } catch {
    // Truncated, or with a line break that JSON does not allow.
    return null;
  }
}

function redactXml(text: string): string {
  return text
    .replace(/<([\w:.-]{1,64})([^>]*)>([^<]*)/g, (whole, name: string, attributes: string, content: string) =>
      isSecret(name) && content.trim() !== "" ? `<${name}${attributes}>${mask}` : whole,
    )
    .replace(/([\w:.-]{1,64})\s*=\s*(?:"[^"]*"?|'[^']*'?)/g, (whole, name: string) => (isSecret(name) ? `${name}="${mask}"` : whole));
}

/** Masks the content of form parts with a secret name. */
function redactMultipart(text: string): string {
  return text.replace(
    /(name="?([^";\r\n]*)"?[^\r\n]*(?:\r?\n[^\r\n]+)*\r?\n\r?\n)([\s\S]*?)(?=\r?\n--|$)/g,
    (whole, head: string, name: string) => (isSecret(name) ? head + mask : whole),
  );
}

/** Masks `name: value` and `name=value` in text of unknown format. */
function redactText(text: string): string {
  return text.replace(/([A-Za-z_][\w.-]{1,63})(\s*[:=]\s*)("[^"]*"?|'[^']*'?|[^\s,;&"']+)/g, (whole, name: string, mark: string) =>
    isSecret(name) ? `${name}${mark}${mask}` : whole,
  );
}

function isText(body: Buffer): boolean {
  let odd = 0;
  for (const byte of body) {
    if (byte === 0) return false;
    if ((byte < 0x20 && byte !== 9 && byte !== 10 && byte !== 13) || byte === 0x7f) odd++;
  }
  if (odd * 50 > body.length + 150) return false;
  const text = body.toString("utf8");
  const broken = text.split("\ufffd").length - 1;
  // The last character may be truncated.
  return broken * 50 <= text.length + 50;
}

export interface BodyFacts {
  contentType: string;
  contentEncoding: string;
  /** The body is longer than what was kept of it. */
  isCut: boolean;
}

/** The start of a body as text; of binary and compressed bodies only the size. */
export function redactBody(body: Buffer, { contentType, contentEncoding, isCut }: BodyFacts): string {
  const isPlain = contentEncoding === "" || /^identity$/i.test(contentEncoding);
  if (!isPlain || !isText(body)) return `(binary, the first ${body.length} bytes are not shown)`;
  const text = cut(body.toString("utf8").replaceAll("\r\n", "\n"), maxBodyLength);
  const clean = redactValue(redactByType(text, contentType));
  // The first half of a secret cannot be recognised.
  return escapeControls(isCut ? clean.replace(/[^\s"'<>&,;{}[\]]{6,}$/, "…") : clean);
}

function redactByType(text: string, contentType: string, depth = 0): string {
  if (/multipart\//i.test(contentType)) return redactMultipart(text);
  if (/x-www-form-urlencoded/i.test(contentType)) return redactPairs(text);
  const start = text.trimStart()[0];
  if (/json/i.test(contentType) || start === "{" || start === "[") return redactJson(text, depth);
  if (/xml|html/i.test(contentType) || start === "<") return redactXml(text);
  if (/^[\w.%+-]+=[^\s]*(?:&[\w.%+-]+=[^\s]*)*$/.test(text.trim())) return redactPairs(text);
  return redactUrls(redactText(redactJson(text, depth)));
}
