import type { RootFiles } from "../root-files.ts";

/** A program of the read-only profile: its allowed arguments, and the privileges that it needs. */
export interface DiagnosticProgram {
  /** Why these arguments are refused; undefined if they are allowed. */
  check(args: readonly string[], files: RootFiles): string | undefined;
  /** Rewrites the checked arguments into an unambiguous form with the same meaning. */
  rewrite?(args: readonly string[]): readonly string[];
  /** Hosts that it contacts or looks up because these arguments name them. Default: none. */
  hosts?(args: readonly string[]): readonly string[];
  /** It stores large input in temporary files, so it runs only where the agent can prevent that. Default false. */
  spills?: true;
  /** Prepended arguments that disable interaction and configuration files. */
  prepend?: readonly string[];
  /** The only capabilities it gets, if the agent has them: `net_raw`. */
  capabilities?: readonly string[];
  /** Supplementary groups it joins where they exist. */
  groups?: readonly string[];
  /** Sends SIGINT after this time, which counts as a normal end. */
  stopAfterMs?: number;
}
