/** Text filters for the end of a pipeline. They read standard input and readable files only. */

import { type ArgumentGrammar, anyText, checkArguments, type OptionRule, oneOf, upTo, type ValueCheck } from "../argument-grammar.ts";
import type { DiagnosticProgram } from "./diagnostic-program.ts";
import { flags, logReaders, small, text, word } from "./option-rules.ts";
import { readablePath } from "./readable-path.ts";

const many: OptionRule = { value: (value) => (/^[+-]?\d{1,9}[bkKMG]?$/.test(value) ? undefined : "is not a number") };

/** Files that may be read, or standard input. */
function reader(grammar: ArgumentGrammar): DiagnosticProgram {
  return {
    check: (args, files) => {
      const readable = readablePath(files);
      return checkArguments(args, { ...grammar, operand: (value) => (value === "-" ? undefined : readable(value)) });
    },
    groups: logReaders,
  };
}

const noFile: ValueCheck = (value) => (value === "-" ? undefined : "is a file, but this program reads only standard input");

/** Standard input only. */
function filter(grammar: ArgumentGrammar): DiagnosticProgram {
  return { check: (args) => checkArguments(args, { operand: noFile, ...grammar }) };
}

const grep: DiagnosticProgram = {
  check: (args, files) => {
    const readable = readablePath(files);
    return checkArguments(args, {
      // Not -R, which follows links.
      flags: "abcEFGHhiIlLnoPqrsTvwxyZz0123456789",
      short: { e: text, A: small, B: small, C: small, m: { value: upTo(1_000_000) }, f: { value: readable } },
      long: {
        ...flags(
          "ignore-case",
          "invert-match",
          "count",
          "line-number",
          "only-matching",
          "extended-regexp",
          "fixed-strings",
          "perl-regexp",
          "word-regexp",
          "line-buffered",
          "recursive",
          "text",
          "no-filename",
        ),
        regexp: text,
        include: text,
        exclude: text,
        "max-count": { value: upTo(1_000_000) },
        color: { optional: oneOf("never", "auto", "always") },
        "after-context": small,
        "before-context": small,
        context: small,
      },
      operand: anyText,
      whole: ({ options, operands }) => {
        const hasPattern = options.has("-e") || options.has("--regexp") || options.has("-f");
        // The first operand is the pattern only when no option gave one.
        const named = hasPattern ? operands : operands.slice(1);
        for (const path of named) {
          const problem = path === "-" ? undefined : readable(path);
          if (problem !== undefined) return `"${path}" ${problem}`;
        }
        const isRecursive = options.has("-r") || options.has("--recursive");
        return isRecursive && named.length === 0 ? "a directory is missing behind -r" : undefined;
      },
    });
  },
  groups: logReaders,
};

export const textFilters: Readonly<Record<string, DiagnosticProgram>> = {
  cat: reader({ flags: "AbeEnstTuv" }),
  head: reader({ flags: "qvz0123456789", short: { n: many, c: many }, long: { lines: many, bytes: many } }),
  tail: reader({
    flags: "qvzfF0123456789",
    short: { n: many, c: many, s: small },
    long: { lines: many, bytes: many, follow: { optional: oneOf("name", "descriptor") }, retry: "flag" },
  }),
  wc: reader({ flags: "clmwL", long: { lines: "flag", words: "flag", bytes: "flag" } }),
  // It copies a pipe to a temporary file, but not a regular file.
  tac: {
    ...reader({
      whole: ({ operands }) =>
        operands.length === 0 || operands.includes("-")
          ? "it would store its input in a temporary file; name a file of /var/log"
          : undefined,
    }),
    spills: true,
  },
  nl: reader({ short: { b: word, w: small } }),
  cut: reader({
    flags: "nsz",
    short: { d: text, f: word, c: word, b: word },
    long: { delimiter: text, fields: word, characters: word, "output-delimiter": text, complement: "flag", "only-delimited": "flag" },
  }),
  grep,
  // Not -o, which writes, not -S, -T, and not --compress-program, which starts a program.
  sort: {
    ...filter({
      flags: "bcCdfghiMmnRrsuVz",
      short: { k: word, t: text },
      long: {
        key: word,
        "field-separator": text,
        reverse: "flag",
        "numeric-sort": "flag",
        "human-numeric-sort": "flag",
        unique: "flag",
        "version-sort": "flag",
      },
    }),
    // Larger input fails, because temporary files are not possible (see `launch.ts`).
    prepend: ["-S", "128M"],
    spills: true,
  },
  // It writes to its second operand.
  uniq: filter({
    flags: "cdDiuz",
    short: { f: small, s: small, w: small },
    long: { count: "flag", repeated: "flag", unique: "flag", "ignore-case": "flag" },
  }),
  tr: filter({ flags: "cCdst", operand: anyText, maxOperands: 2 }),
  column: filter({ flags: "tnexJ", short: { s: text, o: text, c: small, N: word } }),
};
