/** Remembers the templates of statements that differ in their values only, so that most need not be scanned again. Keeps no text. */

import { isDigit, type SqlTemplate, sqlTemplate } from "../../redact/index.ts";

export type SqlTemplater = (bytes: Buffer, from: number, to: number, isCut: boolean) => SqlTemplate;

export interface SqlTemplaterOptions {
  dialect: "postgres" | "mysql";
  /** Templates kept; when there are more, all are forgotten. Default 4096. */
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
 * 53 bits of everything but quoted texts and numbers. Texts with the same one have the same template: whatever could make that doubtful (backslashes,
 * which may or may not escape a quote; comments and quoted names, in which quotes mean nothing) has none: -1.
 */
function fingerprint(bytes: Buffer, from: number, to: number, isMysql: boolean, isCut: boolean): number {
  let low = isCut ? 0x811c9dc5 : 0x9e3779b9;
  let high = 0x85ebca6b;
  let last = 0;
  /** The quote of a name that has begun. */
  let nameQuote = 0;
  for (let at = from; at < to; at++) {
    let code = bytes[at] ?? 0;
    if (code === 92 || (code === 35 && isMysql)) return -1;
    // A parameter; else part of a name, or the quote of a text.
    if (code === 36 && (isNamePart(last) || !isDigit(bytes[at + 1] ?? 0))) return -1;
    if ((code === 45 && last === 45) || (code === 42 && last === 47)) return -1;
    if (code === nameQuote) nameQuote = 0;
    else if (nameQuote !== 0) {
      if (code === 39 || code === 34) return -1;
    } else if (code === 96 || (code === 34 && !isMysql)) nameQuote = code;
    else if (code === 39 || code === 34) {
      const quote = code;
      for (at++; at < to && bytes[at] !== quote; at++) if (bytes[at] === 92) return -1;
      // A text that was cut off is no whole one; two in a row are one text with a quote in it.
      code = at >= to ? 1 : last === 2 ? 0 : 2;
      if (code === 0) continue;
    } else if (isDigit(code)) {
      if (last === 3) continue;
      // Digits of names tell names apart.
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
