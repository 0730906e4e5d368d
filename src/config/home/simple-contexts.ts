/**
 * A second YAML reader, for start-up time: every command reads the contexts file, and loading the YAML library takes longer than the rest of a
 * short command. It accepts only the form that coral writes: plain scalars, two levels. For anything else (quotes, trailing comments, flow style,
 * scalars that YAML reads as numbers) it returns undefined, and the caller loads the library.
 */

// A scalar that YAML always reads as a string: it starts with a letter or a slash and contains no YAML syntax.
const word = "(?!(?:true|false|null|yes|no|on|off)$)[A-Za-z/][\\w./@+-]*(?::\\d{1,5})?";
const current = new RegExp(`^current_context: (${word})$`, "i");
const entry = new RegExp(`^( {2}- | {4})([a-z_]+): (${word})$`, "i");
/** A fingerprint; a hex letter other than `e` rules out a number such as `12e34`. */
const fingerprint = /^( {4})(ca_fingerprint): ((?=[0-9a-f]*[a-df])[0-9a-f]{64})$/;

/** Undefined if the text is not in that form. */
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
