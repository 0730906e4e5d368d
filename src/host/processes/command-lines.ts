import { hash } from "node:crypto";
import { type RedactionRules, redactCommandLine } from "../../redact/index.ts";

/** A cache of redacted command lines: workers of a service share theirs, and redacting a long one is expensive. */
export interface CommandLines {
  /** `command` as the kernel has it, `args` its parts. */
  redacted(command: string, args: readonly string[], rules: RedactionRules): string;
}

const maxRemembered = 4096;

/** The key is a digest: the unredacted text is not kept. */
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
