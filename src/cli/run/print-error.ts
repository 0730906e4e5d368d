import type { CoralError } from "../../base/errors.ts";
import { escapeText } from "../../base/escape-text.ts";
import type { Style } from "../output/style.ts";

/** `error: …` on one line; with `causes` also the chain of causes and the stack of the deepest. */
export function formatError(error: CoralError, style: Style, causes: boolean): string {
  const lines = [`${style("red", "error:")} ${escapeText(error.message)}`];
  if (causes) {
    lines.push(`  code: ${error.code}`);
    let deepest: Error = error;
    for (let cause = error.cause; cause !== undefined && cause !== null; ) {
      const text = cause instanceof Error ? `${cause.name}: ${cause.message}` : (JSON.stringify(cause) ?? typeof cause);
      lines.push(`  caused by: ${escapeText(text)}`);
      if (!(cause instanceof Error)) break;
      deepest = cause;
      cause = cause.cause;
    }
    for (const frame of (deepest.stack ?? "").split("\n").slice(1)) lines.push(`  ${escapeText(frame.trim())}`);
  }
  return `${lines.join("\n")}\n`;
}
