/** The words of a log line without its variable parts: numbers, ids, times, addresses, paths, quoted values. */

/** Prefix of a text that is read. */
const maxCharacters = 1_000;
/** Words of a template. The rest becomes `…`. */
const maxTokens = 40;
/** A longer word is data, such as base64, and becomes `<str>`. */
const maxTokenCharacters = 80;

/** In this order: text that one rule has replaced is not matched again. */
const masks: readonly (readonly [RegExp, string])[] = [
  [/"(?:[^"\\]|\\.)*"|`[^`]*`|(?<![\p{L}\d])'[^']*'(?![\p{L}\d])/gu, "<str>"],
  [/\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s,;)\]}>]+/gi, "<url>"],
  [/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, "<email>"],
  [/\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?/g, "<time>"],
  [/\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b/g, "<time>"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<id>"],
  [/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+|\/\d+)?\b/g, "<ip>"],
  [/(?<![\w:])[0-9a-f]{0,4}(?:(?::{1,2}[0-9a-f]{1,4}){2,7}|::[0-9a-f]{1,4})(?![\w:])/gi, "<ip>"],
  [/(?<![\w<>/.])(?:~|\.{1,2})?(?:\/[\w.@%+~:-]+){2,}\/?/g, "<path>"],
  [/\b0x[0-9a-f]+\b/gi, "<hex>"],
];
/** Words with digits: an id if letters and digits are mixed or the word is long, otherwise only their numbers are masked. */
const wordWithDigit = /[\p{L}\d_.-]*\d[\p{L}\d_.-]*/gu;
/** Also with a decimal or thousands separator. */
const numbers = /\d+(?:[.,]\d+)*/g;

/** At most 40 words, then `…`. Empty for a text without words. */
export function maskLogText(text: string): string[] {
  let line = messageOf(text).slice(0, maxCharacters);
  for (const [expression, name] of masks) line = line.replace(expression, name);
  line = line.replace(wordWithDigit, maskWord);
  const tokens = line.split(/\s+/).filter((token) => token !== "");
  if (tokens.length > maxTokens) tokens.splice(maxTokens - 1, tokens.length, "…");
  return tokens.map((token) => (token.length > maxTokenCharacters ? "<str>" : token));
}

/** Letters between digits, as in `a1b2c3`. Names such as `http2` or `x86` do not match. */
const uncommonMix = /\d[A-Za-z]+\d|[A-Za-z]\d+[A-Za-z]+\d/;

function maskWord(word: string): string {
  const end = /[.-]+$/.exec(word)?.[0] ?? "";
  const bare = end === "" ? word : word.slice(0, -end.length);
  const isHex = bare.length >= 8 && /^[0-9a-f]+$/i.test(bare) && /[a-f]/i.test(bare);
  if (isHex || (bare.length >= 8 && uncommonMix.test(bare) && !/[.]/.test(bare))) return `<id>${end}`;
  return `${bare.replace(numbers, "<num>")}${end}`;
}

const messageKeys = ["msg", "message", "event", "error", "err", "log"] as const;

/** The first line; of an object its message. */
function messageOf(text: string): string {
  const start = text.slice(0, 16 * maxCharacters);
  if (start.startsWith("{") && start.length === text.length) {
    const object = objectOf(start);
    for (const key of messageKeys) {
      const value = object?.[key];
      if (typeof value === "string" && value.trim() !== "") return firstLine(value);
    }
    if (object !== undefined) return `{${Object.keys(object).slice(0, maxTokens).sort().join(" ")}}`;
  }
  return firstLine(start);
}

function firstLine(text: string): string {
  return /\S.*/.exec(text)?.[0] ?? "";
}

function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    // A line that only starts like an object is plain text.
    return undefined;
  }
}
