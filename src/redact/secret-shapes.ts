/** Recognises secrets by shape, whatever their name. */

import { mask } from "./mask.ts";
import { redactUrls } from "./secret-logins.ts";

/**
 * Bounded where a text could otherwise cause repeated scans of the same characters. A match is masked as a whole, except for its first
 * group.
 */
const shapes: readonly RegExp[] = [
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
  // Keeps the scheme of an HTTP header.
  /\b((?:bearer|basic|digest|negotiate|apikey)\s+)[\w.~+/=:-]{6,}/gi,
  // Headers whose whole value is secret, whatever the scheme.
  /\b((?:set-)?cookie\s*:\s*).+/gi,
  /\b((?:proxy-)?authorization\s*:\s*(?:(?:bearer|basic|digest|negotiate|apikey|token)\s+)?).+/gi,
  // `user/password@host` of Oracle, `user:password@tcp(host)` of Go.
  /\b(jdbc:oracle:[a-z]+:)[^\s@/]{1,256}\/[^\s@]{1,256}(?=@)/gi,
  /\b([A-Za-z_][\w.-]{0,63}:)(?!\*\*\*@)[^\s"'`]{1,128}(?=@(?:tcp6?|unix|udp)\()/g,
  // JSON web tokens, including unsigned and encrypted ones.
  /\beyJ[\w-]{8,2048}\.[\w-]+(?:\.[\w-]*){0,3}/g,
  /\b(?:AKIA|ASIA|AROA|AIDA|ANPA|AGPA|ABIA|ACCA)[0-9A-Z]{12,}\b/g,
  /\bgh[pousr]_[A-Za-z0-9]{20,}/g,
  /\bgithub_pat_\w{20,}/g,
  /\bgl(?:pat|ptt|dt|rt|cbt|soat)-[\w.-]{16,}/g,
  /\bxox[a-z]-[\w-]{10,}/g,
  /\bxapp-[\w-]{10,}/g,
  /(hooks\.slack\.com\/(?:services|workflows)\/)[\w/]+/g,
  /(discord(?:app)?\.com\/api\/webhooks\/)[\w/-]+/g,
  /(\.webhook\.office\.com\/)[^\s"']+/g,
  /\b[spr]k_(?:live|test)_[A-Za-z0-9]{10,}/g,
  /\bwhsec_[\w+/=]{16,}/g,
  /\bsk-(?:ant-|proj-|or-|svcacct-)?[\w-]{20,}/g,
  /\bAIza[\w-]{30,}/g,
  /\bya29\.[\w-]{20,}/g,
  /\bGOCSPX-[\w-]{20,}/g,
  /\bSG\.[\w-]{16,}\.[\w-]{16,}/g,
  /\bkey-[0-9a-f]{32}\b/g,
  /\bnpm_[A-Za-z0-9]{30,}/g,
  /\bpypi-[\w-]{40,}/g,
  /\bdop_v1_[0-9a-f]{40,}/g,
  /\bhf_[A-Za-z0-9]{20,}/g,
  /\bdapi[0-9a-f]{32}/g,
  /\b(?:hvs|hvb|hvr|s)\.[\w-]{22,}/g,
  /\bAC[0-9a-f]{32}\b|\bSK[0-9a-f]{32}\b/g,
  /\b\d{8,10}:AA[\w-]{30,}/g,
  /\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,}/g,
  /\bsq0[a-z]{3}-[\w-]{20,}/g,
  /\bNRAK-[A-Z0-9]{20,}|\b[0-9a-f]{36}NRAL\b/g,
  /\blin_api_\w{20,}|\bfigd_[\w-]{20,}|\bglsa_\w{20,}|\bcfut_\w{20,}|\bPMAK-[\w-]{20,}|\bATATT3[\w=-]{20,}|\bEAA[A-Za-z0-9]{40,}/g,
  // SSH and GPG material, age keys, bcrypt and crypt(3) hashes.
  /\bAGE-SECRET-KEY-1[0-9A-Z]{20,}/g,
  /\$(?:2[aby]|5|6|y|argon2(?:id|i|d))\$[\w./$=,+-]{20,}/g,
  // Azure shared access signatures.
  /([?&]sig=)[\w%+/=-]{10,}/gi,
];

/** Prefilter: most words of a command line match nothing and return at once. */
const worthALook = /[\w~+/.=-]{15}|\d{4}[ -]\d{4}|\b(?:bearer|basic|digest|negotiate|apikey|cookie|sig|authorization|jdbc)\b|@\w+\(/i;

/**
 * Payment card numbers, contiguous or in groups: prefixes of Visa, Mastercard, Amex, Discover and JCB. The check digit must match (Luhn).
 */
const cardNumbers =
  /(?<![\w.-])(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|3[47]\d\d|35\d\d|6011|65\d\d)(?:([ -]?)\d{4}\1\d{4}\1\d{4}|[ -]?\d{6}[ -]?\d{5})(?![\w-])/g;

function isCardNumber(text: string): boolean {
  const digits = text.replace(/\D/g, "");
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits[digits.length - 1 - index]);
    const doubled = index % 2 === 0 ? digit : digit * 2;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

/** Candidates for random characters; paths are checked piece by piece. */
const runs = /[A-Za-z0-9+/_=~-]{20,}/g;

function classOf(code: number): number {
  if (code >= 48 && code <= 57) return 1;
  if (code >= 65 && code <= 90) return 2;
  return code >= 97 && code <= 122 ? 3 : 0;
}

interface Mix {
  digits: number;
  uppers: number;
  lowers: number;
  /** Changes between digits, upper and lower case, per character. Words change rarely, random text at about every other character. */
  changes: number;
}

function mixOf(text: string): Mix {
  const counts = [0, 0, 0, 0];
  let changes = 0;
  let last = -1;
  for (let index = 0; index < text.length; index++) {
    const kind = classOf(text.charCodeAt(index));
    counts[kind] = (counts[kind] ?? 0) + 1;
    if (last !== -1 && kind !== last) changes++;
    last = kind;
  }
  const [, digits = 0, uppers = 0, lowers = 0] = counts;
  return { digits, uppers, lowers, changes: changes / text.length };
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** A long random-looking run. Hexadecimal of at least 32 digits counts, UUIDs do not: they are identifiers. */
export function looksRandom(run: string, minLength = 20): boolean {
  if (run.length < minLength || uuid.test(run)) return false;
  if (/^(?:0x)?[0-9a-f]{32,}$/i.test(run)) return /\d/.test(run) && /[a-f]/i.test(run);
  const { digits, uppers, lowers, changes } = mixOf(run);
  if (uppers >= 2 && lowers >= 2 && digits >= 1) return changes >= (digits === 1 ? 0.38 : 0.3);
  // One case only: hyphenated names with numbers look alike, so the threshold is higher.
  return run.length >= 25 && digits >= 4 && uppers + lowers >= 4 && changes >= 0.4 && !/[-_]/.test(run);
}

/** Parts of a directory name that are words, numbers or versions. */
const plainPart = /^(?:[A-Z]?[a-z]+\d{0,4}|[A-Z]+|\d+|[a-z]\d[a-z]|[vV]?\d+[a-z]?)$/;

/**
 * A piece of a path. Temporary directories have 6 to 10 random characters after words (`coral-test-e2e-aB3dE6`, `tmp.Ab3kX9pQ2z`), too few
 * for a secret. So only the part without words counts, and 16 characters of it are enough.
 */
function isRandomPiece(piece: string): boolean {
  if (!looksRandom(piece)) return false;
  const parts = piece.split(/[-_~+]+/);
  const rest = parts.filter((part) => !plainPart.test(part)).join("");
  return parts.length === 1 || looksRandom(rest, 16);
}

/** Base64 contains slashes, and so do paths; a path starts with one, or consists of words. */
function maskRun(run: string, before: string): string {
  if (/(?:sha(?:1|224|256|384|512)|md5|blake[23]\w*)[:-]$/i.test(before)) return run;
  if (/^[A-Za-z0-9+/]{32,}={0,2}$/.test(run) && !run.startsWith("/") && !before.endsWith("/") && !before.endsWith(".") && looksRandom(run))
    return mask;
  const isInPath = run.includes("/") || before.endsWith("/");
  return run
    .split("/")
    .map((piece) => {
      // Container and layer ids are directories.
      if (isInPath && /^[0-9a-f]{32,64}$/.test(piece)) return piece;
      const [name, value] =
        piece.includes("=") && !piece.endsWith("=")
          ? [piece.slice(0, piece.indexOf("=") + 1), piece.slice(piece.indexOf("=") + 1)]
          : ["", piece];
      const bare = value.replace(/=+$/, "");
      return (isInPath && name === "" ? isRandomPiece(bare) : looksRandom(bare)) ? name + mask : piece;
    })
    .join("/");
}

/** Masks user parts of URLs, known shapes, and long random-looking runs. */
export function redactShapes(text: string): string {
  const result = redactKnownShapes(text);
  return result.replace(runs, (run: string, offset: number) => maskRun(run, result.slice(Math.max(0, offset - 12), offset)));
}

/** Like redactShapes(), without random-looking runs: for texts that contain ids, such as logs. */
export function redactKnownShapes(text: string): string {
  if (text.length < 8 || !(worthALook.test(text) || text.includes("://"))) return text;
  let result = redactUrls(text);
  result = result.replace(cardNumbers, (found) => (isCardNumber(found) ? mask : found));
  for (const shape of shapes) {
    result = result.replace(shape, (found: string, kept: unknown) =>
      typeof kept === "string" && found.startsWith(kept) ? kept + mask : mask,
    );
  }
  return result;
}
