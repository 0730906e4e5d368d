/**
 * Removes secrets from command lines before anything is stored. secret-names.ts decides by name what a secret is,
 * secret-shapes.ts by shape. When in doubt a value is masked: a lost word costs less than a leaked one.
 */

import { printable } from "../base/escape-text.ts";
import { isFlagOnly, isHarmlessValue, isIdentifierName, isSecretName, type SecretNameRules, secretFlagsOf } from "./secret-names.ts";
import { mask, redactShapes } from "./secret-shapes.ts";

/** Rules that are added to the built-in ones, which cannot be switched off. */
export interface RedactionRules extends SecretNameRules {
  /** Whatever they match is masked. */
  patterns: readonly RegExp[];
}

export const noExtraRules: RedactionRules = { names: [], patterns: [] };

/** Characters kept of a command line, and characters examined. */
export const maxCommandLength = 4096;
const maxLookedAt = 4 * maxCommandLength;
const maxArguments = 1024;

/** `name=value`, `name: value` and `name = value` inside a text; values may be quoted. The separator of `a=b;c=d` ends a value. */
const pair = /([A-Za-z_][\w.\- ]{0,60}?)(\s?=\s?|["']?\s*:(?!\/\/)\s*["']?|%3[Dd])("[^"]*"|'[^']*'|[^\s"'&;,{}|]+)/g;
/** `Password=two words;` of ODBC and ADO.NET. */
const connectionPair = /((?:^|;)\s*[A-Za-z][\w ]{0,40}?\s*=\s*)([^;]*)/g;

/** With the rules' own patterns masked. */
export function applyPatterns(text: string, rules: RedactionRules): string {
  let result = text;
  for (const pattern of rules.patterns)
    result = result.replace(new RegExp(pattern, withGlobal(pattern.flags)), (found) => (found === "" ? "" : mask));
  return result;
}

function withGlobal(flags: string): string {
  return flags.includes("g") ? flags : `${flags}g`;
}

/** One word without blanks, or a text in which `name=value` pairs and well-known shapes are looked for. */
export function redactText(text: string, rules: RedactionRules = noExtraRules): string {
  let result = applyPatterns(redactShapes(text), rules);
  if (/;/.test(result) && /=/.test(result)) {
    result = result.replace(connectionPair, (found, head: string, value: string) =>
      value !== "" && isSecretName(head.replace(/[;=]/g, "").trim(), rules) ? head + mask : found,
    );
  }
  if (!/[=:]|%3[Dd]/.test(result)) return result;
  return result.replace(pair, (found, name: string, separator: string, value: string) => {
    if (!isSecretName(name.trim().split(/\s+/).at(-1) ?? "", rules) && !isSecretName(name, rules)) return found;
    return isHarmlessValue(name, value.replace(/^["']|["']$/g, "")) ? found : `${name}${separator}${mask}`;
  });
}

interface Words {
  words: readonly string[];
  rules: RedactionRules;
  /** Flags of this program that hold a secret though their name does not say so. */
  flags: ReturnType<typeof secretFlagsOf>;
}

/** The flag's name without hyphens; null if the word is not a flag. */
function flagNameOf(word: string): string | null {
  return /^["'`([{]*(?:--?|\/)([A-Za-z_][\w.-]*)$/.exec(word)?.[1] ?? null;
}

/** `-pSECRET`: the letter stays. Null when the word is not of that kind. */
function redactAttached(word: string, { flags }: Words): string | null {
  const flag = flags.find(({ flag: name, attached }) => attached && word.startsWith(name) && word.length > name.length);
  return flag ? flag.flag + mask : null;
}

/** What follows a flag that names a secret is the secret, unless it is the next flag. */
function isSecretFlag(word: string, { rules, flags }: Words): boolean {
  if (flags.some(({ flag, separate }) => separate && flag === word)) return true;
  const name = flagNameOf(word);
  return name !== null && name.length > 1 && isSecretName(name, rules) && !isFlagOnly(name);
}

/** `-u user:password` of curl and its kin. Two numbers are a user and a group. */
function redactUser(word: string, previous: string | undefined): string | null {
  if (!/^(?:-u|-U|--user|--proxy-user|--userinfo|--login|--auth)$/.test(previous ?? "")) return null;
  const match = /^([^:%/\s]+)[:%](.+)$/.exec(word);
  return match && !/^\d+:\d+$/.test(word) ? `${match[1]}:${mask}` : null;
}

function redactWord(index: number, words: Words): string {
  const word = words.words[index] ?? "";
  const previous = words.words[index - 1];
  // A text with blanks is a command of its own, a header, or a connection string.
  if (/\s/.test(word)) return redactLine(word, words.rules);
  const attached = redactAttached(word, words) ?? redactUser(word, previous);
  if (attached !== null) return attached;
  const assignment = /^((?:--?|\/)?[A-Za-z_][\w.-]*)([=:])(.+)$/s.exec(word);
  if (assignment) {
    const [, flag = "", separator = "", value = ""] = assignment;
    const name = flag.replace(/^(?:--?D?|\/)/, "");
    const isNamed = isSecretName(name, words.rules) || words.flags.some((known) => known.separate && known.flag === flag);
    if (isNamed && !isHarmlessValue(name, value) && !value.startsWith("//")) return `${flag}${separator}${mask}`;
    const user = redactUser(value, flag);
    if (user !== null) return `${flag}${separator}${user}`;
    if (isIdentifierName(name)) return applyPatterns(word, words.rules);
  }
  const name = previous === undefined ? null : flagNameOf(previous);
  if (name !== null && isIdentifierName(name)) return applyPatterns(word, words.rules);
  return redactText(word, words.rules);
}

/** `redis-server requirepass x`, `aws configure set aws_secret_access_key x`: some programs take settings as plain words. */
function isSettingName(word: string, rules: RedactionRules): boolean {
  if (/^(?:requirepass|masterauth|password|passphrase|passwd)$/i.test(word)) return true;
  return /^[A-Za-z0-9]+(?:[_.][A-Za-z0-9]+)+$/.test(word) && isSecretName(word, rules);
}

function redactWords(words: Words): string[] {
  const result: string[] = [];
  for (let index = 0; index < words.words.length; index++) {
    const word = words.words[index] ?? "";
    const previous = words.words[index - 1];
    const name = previous === undefined ? null : (flagNameOf(previous) ?? previous);
    const follows = previous !== undefined && isSecretFlag(previous, words);
    const isSetting = name !== null && isSettingName(name, words.rules);
    const isNextFlag = /^--?[A-Za-z][\w-]*(?:=|$)/.test(word);
    if ((follows || isSetting) && !isNextFlag && word !== "")
      result.push(isHarmlessValue(name ?? "", word) ? redactWord(index, words) : mask);
    else result.push(redactWord(index, words));
  }
  return result;
}

/** A text with blanks: word by word like a command, then as a whole, for what lies across words (`Authorization: Bearer x`). */
function redactLine(line: string, rules: RedactionRules): string {
  const whole = redactText(line, rules);
  const words = whole.split(/\s+/).filter((word) => word !== "");
  return redactText(redactWords({ words, rules, flags: secretFlagsOf(words) }).join(" "), rules);
}

/** The arguments (argv[0] first) as one line that is safe to store: at most 4096 characters, none of them a control character. */
export function redactCommandLine(args: readonly string[], rules: RedactionRules = noExtraRules): string {
  const words: string[] = [];
  let length = 0;
  let isCut = args.length > maxArguments;
  for (const arg of args.slice(0, maxArguments)) {
    length += arg.length + 1;
    // An argument that was cut could be the first half of a secret, whose look would be lost.
    if (length > maxLookedAt) {
      isCut = true;
      break;
    }
    words.push(printable(arg.replace(/[\t\n\r]+/g, " "), maxLookedAt));
  }
  const line = printable(
    redactWords({ words, rules, flags: secretFlagsOf(words) })
      .join(" ")
      .trim(),
    maxLookedAt,
  );
  if (line.length <= maxCommandLength && !isCut) return line;
  return `${printable(line, maxCommandLength - 2)} …`;
}
