import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { CoralError } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import { plural } from "../../output/values.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";
import { type ConfigFile, type ConfigKind, checkConfigFile, configFilesOf, kindOfFile } from "./config-files.ts";

/** A problem with its position in the YAML file; line and column start at 1. */
interface PlacedProblem {
  line: number;
  column: number;
  message: string;
}

/** `coral config validate [file]`: prints every problem as `file:line:column: message`, which editors and CI annotate. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options, print } = invocation;
  const home = homeOf(invocation);
  const files =
    args[0] === undefined
      ? (await configFilesOf(home)).filter((file) => existsSync(file.path))
      : [namedFile(args[0], options.text("kind"))];
  if (files.length === 0) print.note(`no config file under ${home}; the defaults apply`);
  let problems = 0;
  for (const file of files) {
    try {
      await checkConfigFile(home, file, invocation.runtime);
      print.answer(`${file.path}: valid (${file.kind})\n`);
    } catch (error) {
      const found = problemsOf(error);
      if (found.length === 0) throw error;
      problems += found.length;
      for (const { line, column, message } of found) print.answer(`${file.path}:${line}:${column}: ${escapeText(message)}\n`);
    }
  }
  if (problems > 0)
    throw new CoralError({ code: "invalid", message: `Found ${plural(problems, "problem")}; docs/config.md lists every key` });
}

function namedFile(path: string, kind: string | undefined): ConfigFile {
  const file = resolve(path);
  if (!existsSync(file)) throw new CoralError({ code: "not-found", message: `Cannot check "${path}": no such file` });
  return { kind: kind === undefined ? kindOfFile(file) : (kind as ConfigKind), path: file };
}

/** Errors other than `invalid`, such as an unreadable file, are not problems of the content and are rethrown by the caller. */
function problemsOf(error: unknown): PlacedProblem[] {
  if (!(error instanceof CoralError) || error.code !== "invalid") return [];
  return (error.details["problems"] as PlacedProblem[] | undefined) ?? [{ line: 1, column: 1, message: error.message }];
}
