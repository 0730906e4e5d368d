/** Recognises Coral's own child processes by their command lines. Daemons are named by their entry script, `coral`. */

import { posix } from "node:path";

/** First characters of the code of a helper that is started with `node -e`. */
export const ownCodeMark = "/* A helper process of Coral. */";

/** Files of the bundle that run as processes, in any installation. */
const ownFiles: ReadonlySet<string> = new Set([
  "ability-child.js",
  "profile-process.js",
  "sql-process.js",
  "tls-plan-child.js",
  "traffic-process.js",
]);

/** `script`: the entry script, if there is one. */
export function isOwnChild(script: string | null, args: readonly string[]): boolean {
  if (script !== null) return ownFiles.has(posix.basename(script)) && posix.basename(posix.dirname(script)) === "dist";
  return args.some((arg) => arg.startsWith(ownCodeMark));
}
