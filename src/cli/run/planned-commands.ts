/** Planned commands. They get their own error instead of a spelling suggestion. */

import { CoralError } from "../../base/errors.ts";
import type { CommandSpec } from "./command-spec.ts";

/** What to use instead. */
const planned: Readonly<Record<string, string>> = {
  ask: "coral diagnose finds causes without a model, coral mcp config connects an assistant",
  debug: "coral query profile and coral capture show a running program, coral exec runs diagnostic programs",
  profile: "coral query profile <service> shows which functions used the CPU",
  reef: "each colony has a context; see coral config get-contexts",
  dashboard: "coral top and coral query summary --watch show the same live",
};

/** Throws `unsupported` for a planned command. Only options may precede it. */
export function checkPlanned(root: CommandSpec, argv: readonly string[]): void {
  const word = argv.find((text) => !text.startsWith("-"));
  if (word === undefined || !Object.hasOwn(planned, word) || root.commands?.some(({ name }) => name === word)) return;
  throw new CoralError({ code: "unsupported", message: `"coral ${word}" is not available yet; ${planned[word]}` });
}
