/** The words that the tables of programs are written in. */

import { type ArgumentGrammar, anyText, checkArguments, type OptionRule, plainWord, upTo } from "../argument-grammar.ts";
import type { DiagnosticProgram } from "./diagnostic-program.ts";

export const word: OptionRule = { value: plainWord };
export const text: OptionRule = { value: anyText };
export const small: OptionRule = { value: upTo(1_000) };
export const large: OptionRule = { value: upTo(1_000_000) };

/** Two capabilities that together show whose a socket or a file is. They would also read any file, so no file may be named to be read. */
export const seesOwners: readonly string[] = ["sys_ptrace", "dac_read_search"];
/** Who may read logs. */
export const logReaders: readonly string[] = ["adm", "systemd-journal"];

/** A program of which only the arguments are looked at. */
export function simple(grammar: ArgumentGrammar, rest: Omit<DiagnosticProgram, "check"> = {}): DiagnosticProgram {
  return { check: (args) => checkArguments(args, grammar), ...rest };
}

/** Long options without a value. */
export function flags(...names: string[]): Record<string, OptionRule> {
  return Object.fromEntries(names.map((name) => [name, "flag"]));
}
