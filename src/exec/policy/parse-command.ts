/**
 * Parses a command text into programs joined by pipes. Supports words, quotes, backslashes, `|` and redirections of standard error. Nothing is ever
 * expanded: text that a shell would expand is refused, so that a command runs exactly as written.
 */

import { CoralError } from "../../base/errors.ts";
import { escapeText } from "../../base/escape-text.ts";

/** Redirections of a program's output. */
export interface Redirections {
  /** `>/dev/null`. */
  dropStdout: boolean;
  /** `2>/dev/null`, and `2>&1` after `>/dev/null`. */
  dropStderr: boolean;
  /** `2>&1` before `>/dev/null`: to the original standard output. */
  stderrToStdout: boolean;
}

/** One program of a pipeline. */
export interface Stage extends Redirections {
  argv: readonly [string, ...string[]];
}

/** Limit for a whole command and for the sum of its words, far below the kernel's limit for argv. */
export const maxCommandBytes = 64 * 1024;
/** Programs of a pipeline. */
const maxStages = 16;
/** Words of the whole command. */
const maxWords = 1_024;

/** Non-ASCII spaces, zero-width characters and bidirectional marks: invisible to the reader of an approval or an audit entry. */
const invisible = /\u034f|[\p{Cf}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u115f\u1160\u3164\uffa0\u180e]/u;
/** Half of a surrogate pair. It would become another character in UTF-8, so policy and program would see different texts. */
const loneSurrogate = /\p{Cs}/u;
/** Characters with a meaning for a shell outside of quotes. `|` and `>` are handled earlier. */
const shellOnly: Readonly<Record<string, string>> = {
  "&": "background programs and && are not supported",
  ";": "command sequences are not supported",
  "<": "input redirection is not supported; send the input with the command",
  ">": "output redirection to files is not supported; only >/dev/null, 2>/dev/null and 2>&1 are",
  "(": "subshells are not supported",
  ")": "subshells are not supported",
  "`": "command substitution is not supported",
  $: "variables and $(…) are not expanded; put a literal $ in single quotes",
  "*": "file patterns are not expanded; put a literal * in quotes",
  "?": "file patterns are not expanded; put a literal ? in quotes",
  "[": "file patterns are not expanded; put a literal [ in quotes",
};

const redirections: readonly { text: string; apply: (stage: Redirections) => void }[] = [
  // As in a shell: to the current target of standard output.
  { text: "2>&1", apply: (stage) => Object.assign(stage, { stderrToStdout: !stage.dropStdout, dropStderr: stage.dropStdout }) },
  { text: "2>/dev/null", apply: (stage) => Object.assign(stage, { dropStderr: true, stderrToStdout: false }) },
  { text: "2> /dev/null", apply: (stage) => Object.assign(stage, { dropStderr: true, stderrToStdout: false }) },
  { text: ">/dev/null", apply: (stage) => Object.assign(stage, { dropStdout: true }) },
  { text: "> /dev/null", apply: (stage) => Object.assign(stage, { dropStdout: true }) },
  { text: "1>/dev/null", apply: (stage) => Object.assign(stage, { dropStdout: true }) },
];

/** A stage without redirections. */
export function plainStage(argv: readonly [string, ...string[]]): Stage {
  return { argv, dropStdout: false, dropStderr: false, stderrToStdout: false };
}

/** Throws `usage` with the problem and its position. */
export function parseCommand(text: string): Stage[] {
  checkCharacters(text);
  return new Parser(text).parse();
}

/** The same checks for an argv, whose words are literal. */
export function stageOfArgv(words: readonly string[]): Stage {
  const [program, ...rest] = words;
  if (program === undefined || program === "") throw refused("it is empty");
  if (words.length > maxWords) throw refused(`it has more than ${maxWords} words`);
  let bytes = 0;
  for (const word of words) {
    bytes += Buffer.byteLength(word) + 1;
    if (word.includes("\0")) throw refused("it contains a NUL byte");
    if (loneSurrogate.test(word)) throw refused("it is not valid Unicode");
  }
  if (bytes > maxCommandBytes) throw refused(`it is longer than ${maxCommandBytes} bytes`);
  if (/\p{Cc}/u.test(program) || invisible.test(program))
    throw refused(`the program's name ${JSON.stringify(program)} contains invisible characters`);
  return plainStage([program, ...rest]);
}

function refused(why: string, at?: number): CoralError {
  const where = at === undefined ? "" : ` (character ${at + 1})`;
  return new CoralError({ code: "usage", message: `Cannot read the command: ${why}${where}`, details: at === undefined ? {} : { at } });
}

function checkCharacters(text: string): void {
  if (Buffer.byteLength(text) > maxCommandBytes) throw refused(`it is longer than ${maxCommandBytes} bytes`);
  // Tabs separate words. Other control characters, such as line ends, are not valid in a command.
  const control = /[^\P{Cc}\t]/u.exec(text);
  if (control) throw refused(`it contains ${escapeText(control[0])}, and a command is one line of visible characters`, control.index);
  const hidden = invisible.exec(text);
  if (hidden) throw refused(`it contains ${codePoint(hidden[0])}, which is invisible or not an ordinary space`, hidden.index);
  const half = loneSurrogate.exec(text);
  if (half) throw refused("it is not valid Unicode", half.index);
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** One pass over the text. Quotes and backslashes work as in POSIX sh. */
class Parser {
  readonly #text: string;
  readonly #stages: Stage[] = [];
  #at = 0;
  #words: string[] = [];
  #redirected: Redirections = { dropStdout: false, dropStderr: false, stderrToStdout: false };

  constructor(text: string) {
    this.#text = text;
  }

  parse(): Stage[] {
    for (;;) {
      this.#skipBlanks();
      if (this.#at >= this.#text.length) break;
      if (this.#text[this.#at] === "|") this.#readPipe();
      else if (!this.#readRedirection()) this.#readWord();
    }
    this.#endStage();
    return this.#stages;
  }

  #skipBlanks(): void {
    while (this.#text[this.#at] === " " || this.#text[this.#at] === "\t") this.#at++;
  }

  #readPipe(): void {
    const next = this.#text[this.#at + 1];
    if (next === "|") throw refused("|| is not supported; run one command at a time", this.#at);
    if (next === "&") throw refused("|& is not supported; write 2>&1 |", this.#at);
    this.#endStage();
    if (this.#stages.length >= maxStages) throw refused(`it has more than ${maxStages} programs`, this.#at);
    this.#at++;
    this.#skipBlanks();
    if (this.#at >= this.#text.length) throw refused("nothing follows the last |", this.#at - 1);
  }

  #endStage(): void {
    const [program, ...rest] = this.#words;
    if (program === undefined)
      throw refused(this.#stages.length === 0 && this.#at >= this.#text.length ? "it is empty" : "a program is missing beside |", this.#at);
    this.#stages.push({ argv: [program, ...rest], ...this.#redirected });
    this.#words = [];
    this.#redirected = { dropStdout: false, dropStderr: false, stderrToStdout: false };
  }

  /** Only the supported forms, each as a separate word. */
  #readRedirection(): boolean {
    const found = redirections.find(({ text }) => this.#text.startsWith(text, this.#at) && this.#isBoundary(this.#at + text.length));
    if (!found) return false;
    if (this.#words.length === 0) throw refused("a program comes before its redirections", this.#at);
    found.apply(this.#redirected);
    this.#at += found.text.length;
    return true;
  }

  #isBoundary(at: number): boolean {
    const character = this.#text[at];
    return character === undefined || character === " " || character === "\t" || character === "|";
  }

  #readWord(): void {
    const start = this.#at;
    if (this.#words.length >= maxWords) throw refused(`a program has more than ${maxWords} words`, start);
    if (this.#text[start] === "~") throw refused("~ is not expanded; write the whole path", start);
    if (this.#text[start] === "#") throw refused("comments are not supported; put a literal # in quotes", start);
    let word = "";
    // Quoted and escaped text is literal; braces and assignments matter only in words without quotes.
    let bare = "";
    while (!this.#isBoundary(this.#at)) {
      const character = this.#text[this.#at] ?? "";
      if (character === "'") word += this.#readSingleQuoted();
      else if (character === '"') word += this.#readDoubleQuoted();
      else if (character === "\\") word += this.#readEscaped();
      else {
        const why = shellOnly[character];
        if (why !== undefined) throw refused(`it contains an unquoted ${character}: ${why}`, this.#at);
        word += character;
        bare += character;
        this.#at++;
      }
    }
    this.#checkWord(word, bare, start);
    this.#words.push(word);
  }

  #checkWord(word: string, bare: string, start: number): void {
    if (/\{[^{}]*(?:,|\.\.)[^{}]*\}/.test(bare)) throw refused("braces are not expanded; put them in quotes", start);
    if (this.#words.length > 0) return;
    if (word === "") throw refused("the program has no name", start);
    if (bare === "!" || bare === "{" || bare === "}") throw refused(`${bare} is not supported`, start);
    if (/^[A-Za-z_]\w*\+?=/.test(bare)) throw refused("variable assignments are not supported; use --setenv", start);
    if (/[^\P{Cc}]/u.test(word)) throw refused("the program's name contains invisible characters", start);
  }

  #readSingleQuoted(): string {
    const end = this.#text.indexOf("'", this.#at + 1);
    if (end < 0) throw refused("a ' is not closed", this.#at);
    const literal = this.#text.slice(this.#at + 1, end);
    this.#at = end + 1;
    return literal;
  }

  #readDoubleQuoted(): string {
    const start = this.#at;
    let literal = "";
    this.#at++;
    for (;;) {
      const character = this.#text[this.#at];
      if (character === undefined) throw refused('a " is not closed', start);
      if (character === '"') break;
      if (character === "$" || character === "`")
        throw refused(`it contains a ${character} in double quotes: ${shellOnly[character]}`, this.#at);
      if (character === "\\") {
        const next = this.#text[this.#at + 1] ?? "";
        // Inside double quotes a backslash escapes only these; before other characters it is literal.
        literal += '"\\$`'.includes(next) && next !== "" ? next : `\\${next}`;
        this.#at += 1 + next.length;
        continue;
      }
      literal += character;
      this.#at++;
    }
    this.#at++;
    return literal;
  }

  #readEscaped(): string {
    const point = this.#text.codePointAt(this.#at + 1);
    if (point === undefined) throw refused("it ends with a backslash", this.#at);
    const next = String.fromCodePoint(point);
    this.#at += 1 + next.length;
    return next;
  }
}

/** Formats a command as typed text, for audits and screens; quotes words that need it. */
export function formatCommand(stages: readonly Stage[]): string {
  return stages
    .map((stage) => [...stage.argv.map((word, index) => quoteWord(word, index === 0)), ...redirectionsOf(stage)].join(" "))
    .join(" | ");
}

function redirectionsOf({ dropStdout, dropStderr, stderrToStdout }: Redirections): string[] {
  return [...(stderrToStdout ? ["2>&1"] : []), ...(dropStdout ? [">/dev/null"] : []), ...(dropStderr ? ["2>/dev/null"] : [])];
}

function quoteWord(word: string, isProgram: boolean): string {
  return /^[\w@%+=:,./-]+$/.test(word) && !(isProgram && word.includes("=")) ? word : `'${escapeText(word).replaceAll("'", "'\\''")}'`;
}
