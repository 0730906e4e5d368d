/** The programs of the read-only profile. The default is deny: programs and options that are not listed do not run. */

import type { RootFiles } from "../root-files.ts";
import type { DiagnosticProgram } from "./diagnostic-program.ts";
import { hostPrograms } from "./host-programs.ts";
import { logPrograms } from "./log-programs.ts";
import { networkPrograms } from "./network-programs.ts";
import { textFilters } from "./text-filters.ts";

export const diagnosticPrograms: Readonly<Record<string, DiagnosticProgram>> = {
  ...hostPrograms,
  ...networkPrograms,
  ...logPrograms,
  ...textFilters,
};

/** The reason for a refusal; undefined if the profile allows it. */
export function checkDiagnostic(name: string, args: readonly string[], files: RootFiles): string | undefined {
  const program = findDiagnostic(name);
  return program === undefined ? "it is not in the diagnostics profile" : program.check(args, files);
}

/** By base name; undefined if the profile does not have it. */
export function findDiagnostic(name: string): DiagnosticProgram | undefined {
  return Object.hasOwn(diagnosticPrograms, name) ? diagnosticPrograms[name] : undefined;
}
