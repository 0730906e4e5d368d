import { escapeText } from "../base/escape-text.ts";
import { noExtraRules, type RedactionRules, redactAcrossWords, redactCommandLine, withoutEscapes } from "./redact-line.ts";

/** Words with quotes, quoted parts or escapes; or an operator between two programs. */
const token = /\|\|?|&&?|;|(?:\\[^]|"(?:\\[^]|[^"\\])*"|'[^']*'|[^\s|&;])+/g;
const joint = /^(?:\|\|?|&&?|;)$/;
const maxLookedAt = 16_384;
/** Stands for a blank within a flag's value, which is one argument for its program. From a private-use range that no text contains. */
const inner = "\ue000";

/**
 * A command as written, without secrets and control characters, at most 4,096 characters. Each program of a pipeline is redacted
 * separately, because the meaning of a flag depends on the program.
 */
export function redactCommand(text: string, rules: RedactionRules = noExtraRules): string {
  const isCut = text.length > maxLookedAt;
  const plain = withoutEscapes(text.slice(0, maxLookedAt));
  // The value of a header extends to the end of the line; in quotes it ends with them.
  const looked = /["'][^"']*(?:authorization|cookie)/i.test(plain) ? plain : redactAcrossWords(plain, rules);
  const parts: string[] = [];
  let words: string[] = [];
  const endProgram = (): void => {
    if (words.length > 0) parts.push(redactProgram(words, rules));
    words = [];
  };
  for (const [word] of looked.matchAll(token)) {
    if (joint.test(word)) {
      endProgram();
      parts.push(word);
    } else words.push(word);
  }
  // A truncated word may be the first half of a secret, which cannot be recognised.
  if (isCut) words.pop();
  endProgram();
  return bounded(`${parts.join(" ")}${isCut ? " …" : ""}`, 4_096);
}

function redactProgram(words: readonly string[], rules: RedactionRules): string {
  const joined = words.map((word) => (word.startsWith("-") ? word.replace(/\s/g, inner) : word));
  const line = redactCommandLine(joined, rules);
  return line.includes(inner) ? redactCommandLine([line.replaceAll(inner, " ")], rules) : line;
}

/** Limits text to one safe terminal line of at most `maxLength` characters. */
export function bounded(text: string, maxLength: number): string {
  const line = escapeText(text.length > maxLength * 2 ? text.slice(0, maxLength * 2) : text);
  return line.length <= maxLength ? line : `${escapeText(line.slice(0, maxLength - 1))}…`;
}
