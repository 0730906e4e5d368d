import type { RootFiles } from "../root-files.ts";

/** A program of the read-only profile: which arguments it may have, and what it needs besides the unprivileged user. */
export interface DiagnosticProgram {
  /** Why these arguments are refused; undefined when they are not. */
  check(args: readonly string[], files: RootFiles): string | undefined;
  /** Arguments that run instead of the checked ones: the same meaning, written so that they cannot be read in another way. */
  rewrite?(args: readonly string[]): readonly string[];
  /** Put in front of the arguments: what makes it neither wait for a key nor read configuration. */
  prepend?: readonly string[];
  /** Given to it, and only these, when the agent has them: `net_raw`. */
  capabilities?: readonly string[];
  /** Groups that it joins where they exist. */
  groups?: readonly string[];
  /** Sends SIGINT after this time, which counts as a normal end. */
  stopAfterMs?: number;
}
