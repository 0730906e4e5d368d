/** Caches the templates of statements that differ only in their literals, so that most are not scanned again. Keeps no text of statements. */

import { isDigit, type SqlTemplate, sqlTemplate } from "../../redact/index.ts";

export type SqlTemplater = (bytes: Buffer, from: number, to: number, isCut: boolean) => SqlTemplate;

export interface SqlTemplaterOptions {
  dialect: "postgres" | "mysql";
  /** Templates kept; when the cache is full, it is cleared. Default 4096. */
  maxTemplates?: number;
}

export function createSqlTemplater({ dialect, maxTemplates = 4096 }: SqlTemplaterOptions): SqlTemplater {
  const known = new Map<number, SqlTemplate>();
  return (bytes, from, to, isCut) => {
    const key = fingerprint(bytes, from, to, dialect === "mysql", isCut);
    const found = key < 0 ? undefined : known.get(key);
    if (found !== undefined) return found;
    const made = sqlTemplate(bytes.toString("utf8", from, to), { dialect, isCut });
    if (key >= 0) {
      if (known.size >= maxTemplates) known.clear();
      known.set(key, made);
    }
    return made;
  };
}

/**
 * A 53-bit hash of everything but quoted strings and numbers. Statements with the same hash have the same template; where that is uncertain
 * (backslashes, which may or may not escape a quote; comments and quoted names, which may contain quotes) it is -1.
 */
function fingerprint(bytes: Buffer, from: number, to: number, isMysql: boolean, isCut: boolean): number {
  let low = isCut ? 0x811c9dc5 : 0x9e3779b9;
  let high = 0x85ebca6b;
  let last = 0;
  /** The opening quote of the current name. */
  let nameQuote = 0;
  for (let at = from; at < to; at++) {
    let code = bytes[at] ?? 0;
    if (code === 92 || (code === 35 && isMysql)) return -1;
    // A parameter; else part of a name, or the quote of a string.
    if (code === 36 && (isNamePart(last) || !isDigit(bytes[at + 1] ?? 0))) return -1;
    if ((code === 45 && last === 45) || (code === 42 && last === 47)) return -1;
    if (code === nameQuote) nameQuote = 0;
    else if (nameQuote !== 0) {
      if (code === 39 || code === 34) return -1;
    } else if (code === 96 || (code === 34 && !isMysql)) nameQuote = code;
    else if (code === 39 || code === 34) {
      const quote = code;
      for (at++; at < to && bytes[at] !== quote; at++) if (bytes[at] === 92) return -1;
      // A truncated string has no template; two adjacent strings are one with a quote in it.
      code = at >= to ? 1 : last === 2 ? 0 : 2;
      if (code === 0) continue;
    } else if (isDigit(code)) {
      if (last === 3) continue;
      // Digits in names are significant.
      if (!isNamePart(last)) code = 3;
    }
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ code ^ (low >>> 15), 0x5bd1e995);
    last = code;
  }
  return (high >>> 11) * 2 ** 32 + (low >>> 0);
}

function isNamePart(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95 || code >= 128 || isDigit(code);
}
