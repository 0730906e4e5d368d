import { escapeText } from "../base/escape-text.ts";
import { noExtraRules, type RedactionRules, redactAcrossWords, redactCommandLine, withoutEscapes } from "./redact-line.ts";

/** Words in quotes, quoted parts of words, escaped characters; or what joins two programs. */
const token = /\|\|?|&&?|;|(?:\\[^]|"(?:\\[^]|[^"\\])*"|'[^']*'|[^\s|&;])+/g;
const joint = /^(?:\|\|?|&&?|;)$/;
const maxLookedAt = 16_384;
/** Stands for a blank within a flag's value, which is one word for its program: from a range that no text uses. */
const inner = "\ue000";

/**
 * A command as written, without secrets and control characters, at most 4,096 characters. Each program of a pipeline is looked at for
 * itself, because what a flag means depends on the program.
 */
export function redactCommand(text: string, rules: RedactionRules = noExtraRules): string {
  const isCut = text.length > maxLookedAt;
  const plain = withoutEscapes(text.slice(0, maxLookedAt));
  // The value of a header goes to its line's end: within quotes it is looked at, where it ends with them.
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
  // A word that was cut could be the first half of a secret, whose look would be lost.
  if (isCut) words.pop();
  endProgram();
  return bounded(`${parts.join(" ")}${isCut ? " …" : ""}`, 4_096);
}

function redactProgram(words: readonly string[], rules: RedactionRules): string {
  const joined = words.map((word) => (word.startsWith("-") ? word.replace(/\s/g, inner) : word));
  const line = redactCommandLine(joined, rules);
  return line.includes(inner) ? redactCommandLine([line.replaceAll(inner, " ")], rules) : line;
}

/** Safe for one line of a terminal, and no longer than `maxLength`. */
export function bounded(text: string, maxLength: number): string {
  const line = escapeText(text.length > maxLength * 2 ? text.slice(0, maxLength * 2) : text);
  return line.length <= maxLength ? line : `${escapeText(line.slice(0, maxLength - 1))}…`;
}
