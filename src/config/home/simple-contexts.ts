/**
 * Reads the contexts file in exactly the form that coral writes it: plain words, two levels. Anything else (quotes, comments after a
 * value, flow style, words that YAML takes for numbers) is left to the YAML parser, whose loading costs more than all the rest of a short command.
 */

// A word that YAML reads as text and nothing else: it begins with a letter or a slash and holds no sign with a meaning.
const word = "(?!(?:true|false|null|yes|no|on|off)$)[A-Za-z/][\\w./@+-]*(?::\\d{1,5})?";
const current = new RegExp(`^current_context: (${word})$`, "i");
const entry = new RegExp(`^( {2}- | {4})([a-z_]+): (${word})$`, "i");
/** A fingerprint: with both letters and digits, and not of the form `12e34`, it cannot be a number. */
const fingerprint = /^( {4})(ca_fingerprint): ((?=[0-9a-f]*[a-df])[0-9a-f]{64})$/;

/** Undefined when the text is not in that form. */
export function parseSimpleContexts(text: string): Record<string, unknown> | undefined {
  const result: { current_context?: string; contexts?: Record<string, string>[] } = {};
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const named = current.exec(line);
    if (named?.[1] !== undefined && result.current_context === undefined && result.contexts === undefined) {
      result.current_context = named[1];
    } else if (line === "contexts:" && result.contexts === undefined) {
      result.contexts = [];
    } else {
      const [, indent, key, value] = entry.exec(line) ?? fingerprint.exec(line) ?? [];
      if (key === undefined || value === undefined || result.contexts === undefined) return undefined;
      if (indent !== "    ") result.contexts.push({});
      const context = result.contexts.at(-1);
      if (context === undefined || Object.hasOwn(context, key)) return undefined;
      context[key] = value;
    }
  }
  // `contexts:` with nothing below is null in YAML; let the parser decide.
  return result.contexts?.length === 0 ? undefined : result;
}
