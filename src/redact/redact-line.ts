/**
 * Removes secrets from command lines before anything is stored. secret-names.ts recognises secrets by name, secret-shapes.ts and
 * secret-logins.ts by shape, program-secrets.ts by program. When in doubt a value is masked: a lost word costs less than a leaked one.
 */

import { printable } from "../base/escape-text.ts";
import { mask } from "./mask.ts";
import { type ProgramSecrets, programSecretsOf, secretPositions } from "./program-secrets.ts";
import { redactLogins } from "./secret-logins.ts";
import { isFlagOnly, isHarmlessValue, isIdentifierName, isSecretName, type SecretNameRules } from "./secret-names.ts";
import { redactKnownShapes, redactShapes } from "./secret-shapes.ts";

/** Rules in addition to the built-in ones, which cannot be disabled. */
export interface RedactionRules extends SecretNameRules {
  /** All matches are masked. */
  patterns: readonly RegExp[];
}

export const noExtraRules: RedactionRules = { names: [], patterns: [] };

/** Limits on characters kept of a command line, and on characters examined. */
export const maxCommandLength = 4096;
const maxLookedAt = 4 * maxCommandLength;
const maxArguments = 1024;

/** `name=value`, `name: value` and `name = value` inside a text; values may be quoted, quotes escaped. The separator of `a=b;c=d` ends a value. */
const pair =
  /([A-Za-z_][\w.\- ]{0,60}?)(\s?=\s?|(?:\\?["'])?\s*:(?!\/\/)\s*(?:\\?["'])?|%3[Dd])("(?:[^"\\]|\\.)*"|'[^']*'|\\"(?:[^"\\]|\\[^"])*\\"|[^\s"'&;,{}|]+)/g;
/** `:password => 'x'` of Ruby, `'password' => 'x'` of PHP. */
const arrowPair = /([A-Za-z_][\w.-]{0,60})(["']?\s*=>\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',;{}]+)/g;
/** `Password=two words;` of ODBC and ADO.NET. */
const connectionPair = /((?:^|;)\s*[A-Za-z][\w ]{0,40}?\s*=\s*)("[^"]*"|'[^']*'|\{[^}]*\}|[^;]*)/g;
/** A password piped into a program: `echo secret | sudo -S x`. */
const piped =
  /\b((?:echo|printf)\s+(?:-[neE]+\s+)*)([^|]{1,512}?)(\s*\|\s*)(?=[^|]{0,256}?(?:\bsudo\s(?:[^|]*\s)?-\w*S|--(?:password-)?stdin\b|\bchpasswd\b|\bcryptsetup\b|-pass(?:in)? stdin))/g;

/** Masks the matches of the rules' own patterns. */
function applyPatterns(text: string, rules: RedactionRules): string {
  let result = text;
  for (const pattern of rules.patterns)
    result = result.replace(new RegExp(pattern, withGlobal(pattern.flags)), (found) => (found === "" ? "" : mask));
  return result;
}

function withGlobal(flags: string): string {
  return flags.includes("g") ? flags : `${flags}g`;
}

/** Redacts one word without blanks, or a text with `name=value` pairs and well-known shapes. */
export function redactText(text: string, rules: RedactionRules = noExtraRules): string {
  return redactPairs(applyPatterns(redactLogins(redactShapes(text)), rules), rules);
}

/** Redacts the value of a container or commit id, for which a random look is normal. */
export function redactIdentifier(text: string, rules: RedactionRules = noExtraRules): string {
  return redactPairs(applyPatterns(redactLogins(redactKnownShapes(text)), rules), rules);
}

function redactPairs(text: string, rules: RedactionRules): string {
  let result = text;
  if (result.includes(";") && result.includes("=")) {
    result = result.replace(connectionPair, (found, head: string, value: string) =>
      value !== "" && isSecretName(head.replace(/[;=]/g, "").trim(), rules) ? head + mask : found,
    );
  }
  if (!/[=:]|%3[Dd]/.test(result)) return result;
  const maskPair = (found: string, name: string, separator: string, value: string): string => {
    if (!isSecretName(name.trim().split(/\s+/).at(-1) ?? "", rules) && !isSecretName(name, rules)) return found;
    return isHarmlessValue(name, value.replace(/^\\?["']|\\?["']$/g, "")) ? found : `${name}${separator}${mask}`;
  };
  if (result.includes("=>")) result = result.replace(arrowPair, maskPair);
  return result.replace(pair, maskPair);
}

interface Words {
  words: readonly string[];
  rules: RedactionRules;
  /** Secrets of the program, if it is known. */
  program: ProgramSecrets | null;
  /** Indexes of secrets. */
  positions: ReadonlySet<number>;
}

const noPositions: ReadonlySet<number> = new Set();

function wordsOf(words: readonly string[], rules: RedactionRules): Words {
  const program = programSecretsOf(words);
  const hasPositions = program !== null && program.secrets.positions.length > 0;
  const positions = hasPositions ? secretPositions(words, program.index, program.secrets) : noPositions;
  return { words, rules, program: program?.secrets ?? null, positions };
}

/** The flag's name without hyphens; null if the word is not a flag. */
function flagNameOf(word: string): string | null {
  return /^["'`([{]*(?:--?|\/)([A-Za-z_][\w.-]*)$/.exec(word)?.[1] ?? null;
}

/** `-pSECRET`: keeps the letter. Null for other words. */
function redactAttached(word: string, { program }: Words): string | null {
  const flag = program?.flags.find(({ flag: name, attached }) => attached && word.startsWith(name) && word.length > name.length);
  return flag ? flag.flag + mask : null;
}

/** The word after a flag that names a secret is the secret, unless it is the next flag. */
function isSecretFlag(word: string, { rules, program }: Words): boolean {
  if (program?.flags.some(({ flag, separate }) => separate && flag === word)) return true;
  // Of `--header=X-Api-Key: x` and `-HX-Api-Key: x`, the header's name counts.
  const name = flagNameOf(word) ?? /^(?:--?[A-Za-z][\w-]*=|-H)([A-Za-z][\w-]*):$/.exec(word)?.[1] ?? null;
  return name !== null && name.length > 1 && isSecretName(name, rules) && !isFlagOnly(name);
}

const loginFlag = /^(?:-u|-U|--user|--proxy-user|--userinfo|--login|--auth|--username)$/;

/** `-u user:password` of curl and similar programs, also in one word. Two numbers are a user and a group. */
function redactUser(word: string, previous: string | undefined, { program }: Words): string | null {
  const known = program?.logins.find(({ flag }) => flag === previous || (flag.length === 2 && word.startsWith(flag)));
  if (known && known.flag !== previous) {
    const login = maskAfter(word.slice(2), known.separator);
    return login === null ? null : known.flag + login;
  }
  if (known) return maskAfter(word, known.separator);
  if (!loginFlag.test(previous ?? "") || /^\d+:\d+$/.test(word)) return null;
  const match = /^([^:%/\s]+)[:%](.+)$/.exec(word);
  return match ? `${match[1]}:${mask}` : null;
}

function maskAfter(word: string, separator: string): string | null {
  const end = word.indexOf(separator);
  return end <= 0 || end === word.length - 1 ? null : `${word.slice(0, end)}${separator === "%" ? ":" : separator}${mask}`;
}

const wholeId = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const bareOracleLogin = /^((?:\w+=)?["']?[A-Za-z][\w$#]*)\/([^/\s@]\S*?)(@[\w.-]+["']?)?$/;

/** Rules of this program only; null if none applies. */
function redactForProgram(word: string, previous: string | undefined, words: Words): string | null {
  const found = redactAttached(word, words) ?? redactUser(word, previous, words);
  if (found !== null || words.program === null) return found;
  if (words.program.takesIds && wholeId.test(word)) return word;
  const login = words.program.isOracle ? bareOracleLogin.exec(word) : null;
  return login ? `${login[1]}/${mask}${login[3] ?? ""}` : null;
}

/** `--flag=value`, `name=value` and `name:value`; null if the name requires no special handling. */
function redactAssignment(word: string, words: Words): string | null {
  const assignment = /^((?:--?|\/)?[A-Za-z_][\w.-]*)([=:])(.+)$/s.exec(word);
  if (!assignment) return null;
  const [, flag = "", separator = "", value = ""] = assignment;
  const name = flag.replace(/^(?:--?D?|\/)/, "");
  const isNamed = isSecretName(name, words.rules) || words.program?.flags.some((known) => known.separate && known.flag === flag);
  if (isNamed && !isHarmlessValue(name, value) && !value.startsWith("//")) return `${flag}${separator}${mask}`;
  if (name === "from-literal") return `${flag}${separator}${maskAfter(value, "=") ?? value}`;
  const user = redactUser(value, flag, words);
  if (user !== null) return `${flag}${separator}${user}`;
  return isIdentifierName(name) ? redactIdentifier(word, words.rules) : null;
}

/** `--passphrase=several words` in one argument: the whole value is secret. Null for anything else. */
function redactPassphrase(word: string, rules: RedactionRules): string | null {
  const match = /^((?:--?[A-Za-z_][\w.-]*=|--?D?)([A-Za-z_][\w.-]*)=).+$/s.exec(word);
  return match && isSecretName(match[2] ?? "", rules) ? `${match[1]}${mask}` : null;
}

/** Escape sequences spelled out as text: `\x1b[0m`, `\e[0m`. */
const writtenEscape = /\\(?:x1b|e|033|u001b)\[[\d;]*[A-Za-z]/gi;

function redactWord(index: number, words: Words): string {
  const word = words.words[index] ?? "";
  const previous = words.words[index - 1];
  if (word.includes("\\") && writtenEscape.test(word)) {
    const plain = word.replace(writtenEscape, "");
    const redacted = redactWord(0, { ...words, words: [plain] });
    return redacted === plain ? word : redacted;
  }
  // A text with blanks may be a passphrase, a nested command, a header, or a connection string.
  if (/\s/.test(word)) return redactPassphrase(word, words.rules) ?? redactLine(word, words.rules);
  const found = redactForProgram(word, previous, words) ?? redactAssignment(word, words);
  if (found !== null) return found;
  if (previous === "--from-literal") return maskAfter(word, "=") ?? word;
  const name = previous === undefined ? null : flagNameOf(previous);
  if (name !== null && isIdentifierName(name)) return redactIdentifier(word, words.rules);
  return redactText(word, words.rules);
}

/** `redis-server requirepass x`, `aws configure set aws_secret_access_key x`: some programs take settings as plain words. */
function isSettingName(word: string, rules: RedactionRules): boolean {
  if (/^(?:requirepass|masterauth|password|passphrase|passwd|authtoken)$/i.test(word)) return true;
  return /^[A-Za-z0-9]+(?:[_.][A-Za-z0-9]+)+$/.test(word) && isSecretName(word, rules);
}

const joint = /^(?:\|\|?|&&?|;)$|;$/;

/** Redacts each program of a shell line separately, because the meaning of a flag depends on the program. */
function redactWords(words: readonly string[], rules: RedactionRules): string[] {
  const result: string[] = [];
  for (let start = 0; start < words.length; ) {
    let end = start;
    while (end < words.length && !joint.test(words[end] ?? "")) end++;
    result.push(...redactProgram(wordsOf(start === 0 && end >= words.length - 1 ? words : words.slice(start, end + 1), rules)));
    start = end + 1;
  }
  return result;
}

function redactProgram(words: Words): string[] {
  const result: string[] = [];
  for (let index = 0; index < words.words.length; index++) {
    const word = words.words[index] ?? "";
    const previous = words.words[index - 1];
    const name = previous === undefined ? null : (flagNameOf(previous) ?? previous);
    const follows = previous !== undefined && isSecretFlag(previous, words);
    const isSetting = name !== null && isSettingName(name, words.rules);
    const isNextFlag = /^--?[A-Za-z][\w-]*(?:=|$)/.test(word);
    const isSecret = words.positions.has(index) || ((follows || isSetting) && !isNextFlag);
    if (isSecret && word !== "" && !joint.test(word)) result.push(isHarmlessValue(name ?? "", word) ? redactWord(index, words) : mask);
    else result.push(redactWord(index, words));
  }
  return result;
}

/** Redacts a text with blanks as a whole, for secrets that span words: `Authorization: Bearer x`, `echo x | sudo -S`. */
export function redactAcrossWords(text: string, rules: RedactionRules): string {
  return redactText(text.includes("|") ? text.replace(piped, `$1${mask}$3`) : text, rules);
}

/** Redacts a text with blanks: as a whole, then word by word like a command. */
function redactLine(line: string, rules: RedactionRules): string {
  const words = redactAcrossWords(line, rules)
    .split(/\s+/)
    .filter((word) => word !== "");
  return redactText(redactWords(words, rules).join(" "), rules);
}

/** Terminal escape sequences. Removed as a whole, because a remainder could hide the name of a flag: `--pass[0mword`. */
const terminalEscape = new RegExp(
  String.raw`(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-Z^-~]`,
  "g",
);

export function withoutEscapes(text: string): string {
  return text.includes("\u001b") || text.includes("\u009b") ? text.replace(terminalEscape, "") : text;
}

/** On one line, without terminal escape sequences. */
export function withoutControls(text: string, maxLength: number): string {
  return printable(withoutEscapes(text).replace(/[\t\n\r]+/g, " "), maxLength);
}

/** Formats the arguments (argv[0] first) as one line that is safe to store: at most 4,096 characters, no control characters. */
export function redactCommandLine(args: readonly string[], rules: RedactionRules = noExtraRules): string {
  const words: string[] = [];
  let length = 0;
  let isCut = args.length > maxArguments;
  for (const arg of args.slice(0, maxArguments)) {
    length += arg.length + 1;
    // A truncated argument may be the first half of a secret, which cannot be recognised.
    if (length > maxLookedAt) {
      isCut = true;
      break;
    }
    words.push(withoutControls(arg, maxLookedAt));
  }
  const line = printable(redactWords(words, rules).join(" ").trim(), maxLookedAt);
  if (line.length <= maxCommandLength && !isCut) return line;
  return `${printable(line, maxCommandLength - 2)} …`;
}
