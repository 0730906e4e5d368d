/**
 * Removes the values from SQL text to get the name of a statement. No literal survives, even if the text was truncated in the middle of
 * one. Where server settings decide what a quote means, the template ends.
 */

import { redactPersonal } from "./personal-shapes.ts";
import { redactShapes } from "./secret-shapes.ts";
import { SqlTemplateWriter } from "./sql-template-writer.ts";
import { blank, classes, digit, isDigit, knownVerbs, letter, looksGenerated, mainVerbs, operator, other, valueWords } from "./sql-words.ts";

const unknownStatement = "unknown";

export interface SqlTemplate {
  /** `SELECT`, `INSERT`, …; for `WITH` the verb of the main statement; empty if the text starts with no known verb. */
  verb: string;
  /**
   * Literals and parameters as `?`, lists of them as one, no comments. Ends with `…` when truncated. `unknown` if the text starts with no
   * known verb: it may not be SQL, and its words could be anything.
   */
  template: string;
}

export interface SqlTemplateOptions {
  /** Decides what `"`, `#`, `$` and a backslash mean. Default `postgres`. */
  dialect?: "postgres" | "mysql";
  /** MySQL only: false if the server runs with NO_BACKSLASH_ESCAPES. Default true. */
  hasBackslashEscapes?: boolean;
  /** The text is the start of a longer one: its last word may be partial and is dropped. Default false. */
  isCut?: boolean;
  /** Limit on characters of the template. Default 200. */
  maxLength?: number;
}

/** Scans the text and passes each token to the writer. */
class SqlScanner {
  readonly #text: string;
  readonly #isMysql: boolean;
  readonly #hasBackslashEscapes: boolean;
  readonly #writer: SqlTemplateWriter;
  #end: number;
  #at = 0;
  #verb = "";
  #isVerbOpen = true;

  constructor(text: string, options: SqlTemplateOptions) {
    this.#text = text;
    this.#isMysql = options.dialect === "mysql";
    this.#hasBackslashEscapes = this.#isMysql && options.hasBackslashEscapes !== false;
    this.#writer = new SqlTemplateWriter(options.maxLength ?? 200);
    this.#end = text.length;
    if (options.isCut === true) {
      while (this.#end > 0 && this.#isWordAt(this.#end - 1)) this.#end--;
    }
  }

  scan(isCut: boolean): SqlTemplate {
    const writer = this.#writer;
    while (!writer.isStopped && this.#at < this.#end) this.#step();
    return this.#verb === "" ? { verb: "", template: unknownStatement } : { verb: this.#verb, template: writer.finish(isCut) };
  }

  #step(): void {
    const code = this.#text.charCodeAt(this.#at);
    const kind = code < 128 ? (classes[code] ?? other) : letter;
    if (kind === blank) {
      this.#writer.blank();
      this.#at++;
    } else if (kind === letter) this.#word();
    else if (kind === digit) this.#number();
    else if (kind === operator) this.#operator(code);
    else this.#mark(code);
  }

  #isWordAt(at: number): boolean {
    const code = this.#text.charCodeAt(at);
    if (code >= 128) return true;
    const kind = classes[code] ?? other;
    return kind === letter || kind === digit || code === 36;
  }

  #word(): void {
    const from = this.#at;
    let at = from + 1;
    while (at < this.#end && this.#isWordAt(at)) at++;
    this.#at = at;
    const next = at < this.#end ? this.#text.charCodeAt(at) : 0;
    if (next === 39 || (next === 34 && this.#isMysql)) {
      // E'…', X'…', N'…', _utf8'…': the prefix belongs to the literal.
      if (at - from === 1 || this.#text.charCodeAt(from) === 95) {
        const first = this.#text.charCodeAt(from) | 32;
        this.#string(next, !this.#isMysql && at - from === 1 && first === 101);
        return;
      }
    }
    const word = this.#text.slice(from, at);
    const upper = at - from <= 9 ? word.toUpperCase() : "";
    if (this.#isVerbOpen) this.#findVerb(word);
    if (this.#writer.isInValueList && valueWords.has(upper)) {
      this.#writer.literal();
      return;
    }
    if (upper === "VALUES" || (upper === "VALUE" && this.#isMysql)) this.#writer.expectTuples();
    this.#writer.word(looksGenerated(word) ? "{id}" : word, upper);
  }

  #findVerb(word: string): void {
    const upper = word.length <= 17 ? word.toUpperCase() : "";
    if (this.#verb === "WITH") {
      if (this.#writer.depth > 0 || !mainVerbs.has(upper)) return;
      this.#verb = upper;
    } else if (knownVerbs.has(upper)) this.#verb = upper;
    this.#isVerbOpen = this.#verb === "WITH";
  }

  #number(): void {
    let at = this.#at + 1;
    for (; at < this.#end; at++) {
      if (this.#isWordAt(at) || this.#text.charCodeAt(at) === 46) continue;
      // The sign of an exponent; in 0xe+1 it is an addition, which makes no difference here.
      const code = this.#text.charCodeAt(at);
      if ((code !== 43 && code !== 45) || (this.#text.charCodeAt(at - 1) | 32) !== 101) break;
    }
    this.#at = at;
    this.#writer.literal();
  }

  #operator(code: number): void {
    const next = this.#at + 1 < this.#end ? this.#text.charCodeAt(this.#at + 1) : 0;
    if (code === 47 && next === 42) {
      this.#blockComment();
      return;
    }
    if ((code === 45 && next === 45 && this.#isDashComment()) || (code === 35 && this.#isMysql)) {
      const lineEnd = this.#text.indexOf("\n", this.#at);
      this.#at = lineEnd < 0 ? this.#end : lineEnd;
      return;
    }
    if (code === 42 && next === 47) {
      // The end of /*! … */, whose content was read as SQL.
      this.#at += 2;
      this.#writer.blank();
      return;
    }
    if ((code === 45 || code === 43) && this.#writer.isSignNext && this.#isNumberAt(this.#at + 1)) {
      this.#at++;
      return;
    }
    if (code === 58 && next !== 58 && next !== 61 && this.#isWordAt(this.#at + 1)) {
      this.#at++;
      while (this.#at < this.#end && this.#isWordAt(this.#at)) this.#at++;
      this.#writer.literal();
      return;
    }
    this.#operatorRun();
  }

  #operatorRun(): void {
    const text = this.#text;
    const from = this.#at;
    let at = from;
    let isComparison = true;
    for (; at < this.#end; at++) {
      const code = text.charCodeAt(at);
      if (code >= 128 || classes[code] !== operator) break;
      const following = text.charCodeAt(at + 1);
      // A comment or a sign may follow an operator without a blank.
      if (at > from && ((code === 45 && following === 45) || (code === 47 && following === 42) || (code === 35 && this.#isMysql))) break;
      if (at > from && (code === 45 || code === 43) && this.#isNumberAt(at + 1)) break;
      if (at > from && code === 58 && following !== 58 && following !== 61 && text.charCodeAt(at - 1) !== 58) break;
      if (code !== 61 && code !== 60 && code !== 62 && code !== 33) isComparison = false;
    }
    this.#at = at;
    this.#writer.put(text.slice(from, at), isComparison ? "comparison" : "operator");
  }

  /** Whether a number follows, after blanks and further signs. */
  #isNumberAt(from: number): boolean {
    let at = from;
    for (; at < this.#end; at++) {
      const code = this.#text.charCodeAt(at);
      if (code === 46) return isDigit(this.#text.charCodeAt(at + 1));
      if (isDigit(code)) return true;
      // Two dashes start a comment.
      const isSign = code === 43 || (code === 45 && this.#text.charCodeAt(at - 1) !== 45);
      if (!isSign && !(code < 128 && classes[code] === blank)) return false;
    }
    return false;
  }

  #isDashComment(): boolean {
    // MySQL requires a blank after the dashes: 5--1 is a subtraction there.
    if (!this.#isMysql || this.#at + 2 >= this.#end) return true;
    const code = this.#text.charCodeAt(this.#at + 2);
    return code < 128 && classes[code] === blank;
  }

  #blockComment(): void {
    this.#writer.blank();
    if (this.#isMysql) {
      const third = this.#text.charCodeAt(this.#at + 2);
      if (third === 33 || (third === 77 && this.#text.charCodeAt(this.#at + 3) === 33)) {
        // Servers of at least that version execute it, so it is read like the rest.
        this.#at += third === 33 ? 3 : 4;
        while (isDigit(this.#text.charCodeAt(this.#at))) this.#at++;
        return;
      }
      const close = this.#text.indexOf("*/", this.#at + 2);
      this.#at = close < 0 ? this.#end : close + 2;
      return;
    }
    let depth = 0;
    while (this.#at < this.#end) {
      const pair = this.#text.substr(this.#at, 2);
      if (pair === "/*") depth++;
      else if (pair === "*/") depth--;
      this.#at += pair === "/*" || pair === "*/" ? 2 : 1;
      if (depth === 0) return;
    }
  }

  #mark(code: number): void {
    switch (code) {
      case 39: // '
        this.#string(39, false);
        return;
      case 34: // "
        if (this.#isMysql) this.#string(34, false);
        else this.#quotedName(34);
        return;
      case 96: // `
        this.#quotedName(96);
        return;
      case 36: // $
        this.#dollar();
        return;
      case 63: // ?
        this.#at++;
        // Postgres has JSON operators that contain it: ?| and ?&.
        this.#writer.literal();
        return;
      case 40: // (
      case 91: // [
        this.#at++;
        this.#writer.open(code === 40 ? "(" : "[");
        return;
      case 41: // )
      case 93: // ]
        this.#at++;
        this.#writer.close(code === 41 ? ")" : "]");
        return;
      case 44: // ,
        this.#at++;
        this.#writer.comma();
        return;
      case 59: // ;
        this.#at++;
        this.#writer.endStatement();
        return;
      case 46: // .
        if (isDigit(this.#text.charCodeAt(this.#at + 1)) && this.#writer.isNumberNext) this.#number();
        else {
          this.#at++;
          this.#writer.put(".", "dot");
        }
        return;
      default:
        this.#writer.put(this.#text.charAt(this.#at++), "operator");
    }
  }

  /** From the opening quote to just after the closing one. */
  #string(quote: number, hasEscapes: boolean): void {
    const text = this.#text;
    const isEscaping = hasEscapes || this.#hasBackslashEscapes;
    let at = this.#at + 1;
    let backslashes = 0;
    for (; at < this.#end; at++) {
      const code = text.charCodeAt(at);
      if (code === 92) {
        if (isEscaping) at++;
        else backslashes++;
        continue;
      }
      if (code === quote) {
        // 'a\' ends here only if the server does not treat backslashes as escapes. Where that is unknown, nothing after it can be trusted.
        if (backslashes % 2 === 1 && !this.#isMysql) {
          this.#writer.stopAfterLiteral();
          return;
        }
        if (text.charCodeAt(at + 1) !== quote) break;
        at++;
      }
      backslashes = 0;
    }
    this.#at = at + 1;
    this.#writer.literal();
  }

  #quotedName(quote: number): void {
    const from = this.#at;
    let at = from + 1;
    for (; at < this.#end; at++) {
      if (this.#text.charCodeAt(at) !== quote) continue;
      if (this.#text.charCodeAt(at + 1) !== quote) break;
      at++;
    }
    this.#at = at + 1;
    const name = this.#text.slice(from, Math.min(this.#at, this.#end));
    // Some programs put values into quoted names.
    this.#writer.word(redactPersonal(redactShapes(name)) === name ? name : "{id}", "");
  }

  #dollar(): void {
    const from = this.#at;
    let at = from + 1;
    // A tag contains no dollar sign.
    while (at < this.#end && this.#text.charCodeAt(at) !== 36 && this.#isWordAt(at)) at++;
    if (isDigit(this.#text.charCodeAt(from + 1))) {
      this.#at = at;
      this.#writer.literal();
      return;
    }
    if (this.#isMysql) {
      this.#at = at;
      this.#writer.put(this.#text.slice(from, at), "word");
      return;
    }
    if (this.#text.charCodeAt(at) !== 36) {
      // A partial tag at the end of truncated text, or not SQL at all.
      this.#writer.stopAfterLiteral();
      return;
    }
    const tag = this.#text.slice(from, at + 1);
    const close = this.#text.indexOf(tag, at + 1);
    this.#at = close < 0 ? this.#end : close + tag.length;
    this.#writer.literal();
  }
}

/** The verb and the template of a statement, or of several in one text. */
export function sqlTemplate(text: string, options: SqlTemplateOptions = {}): SqlTemplate {
  return new SqlScanner(text, options).scan(options.isCut === true);
}
