import { hash } from "node:crypto";
import { type RedactionRules, redactCommandLine } from "../../redact/index.ts";

/** Redacted command lines, remembered: the workers of a service share theirs, and a long one takes its time. */
export interface CommandLines {
  /** `command` as the kernel has it, `args` its parts. */
  redacted(command: string, args: readonly string[], rules: RedactionRules): string;
}

const maxRemembered = 4096;

/** Only a digest of the text is kept beside what became of it. */
export function createCommandLines(): CommandLines {
  const lines = new Map<string, string>();
  let rules: RedactionRules | undefined;
  return {
    redacted: (command, args, nextRules) => {
      if (nextRules !== rules) lines.clear();
      rules = nextRules;
      const key = hash("sha256", command, "base64");
      const known = lines.get(key);
      if (known !== undefined) return known;
      const line = redactCommandLine(args, nextRules);
      if (lines.size >= maxRemembered) lines.clear();
      lines.set(key, line);
      return line;
    },
  };
}
