/** Helpers for the tables of programs. */

import {
  type ArgumentGrammar,
  anyText,
  checkArguments,
  type OptionRule,
  plainWord,
  readArguments,
  type UsedArguments,
  upTo,
} from "../argument-grammar.ts";
import type { DiagnosticProgram } from "./diagnostic-program.ts";

export const word: OptionRule = { value: plainWord };
export const text: OptionRule = { value: anyText };
export const small: OptionRule = { value: upTo(1_000) };
export const large: OptionRule = { value: upTo(1_000_000) };

/** Two capabilities that together reveal the owner of a socket or file. They also allow reading any file, so such a program must not read files by name. */
export const seesOwners: readonly string[] = ["sys_ptrace", "dac_read_search"];
/** Groups that may read logs. */
export const logReaders: readonly string[] = ["adm", "systemd-journal"];

/** A program that needs only an argument check. */
export function simple(
  grammar: ArgumentGrammar,
  { hosts, ...rest }: Omit<DiagnosticProgram, "check" | "hosts"> & { hosts?: (used: UsedArguments) => string[] } = {},
): DiagnosticProgram {
  const contacts = hosts && { hosts: (args: readonly string[]) => hosts(readArguments(args, grammar)) };
  return { check: (args) => checkArguments(args, grammar), ...contacts, ...rest };
}

/** Long options without a value. */
export function flags(...names: string[]): Record<string, OptionRule> {
  return Object.fromEntries(names.map((name) => [name, "flag"]));
}
