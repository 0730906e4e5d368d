/** One line of Prometheus's text format: `name{label="value"} 1.5 1700000000000`. */

/** One value, without its type: types are in `# TYPE` lines. */
export interface TextSample {
  name: string;
  labels: [string, string][];
  value: number;
  /** As written; its unit depends on the format. */
  timestamp?: number;
}

/** A line beyond a limit is malformed. Prometheus has no such limits by default. */
const maxLabels = 64;
/** Characters of a name or value. */
const maxTextLength = 4_096;
/** Characters. */
const maxLineLength = 64 * 1_024;

/** These are sticky: each matches at the current position only, so parsing takes linear time. */
const nameForm = /[A-Za-z_:][A-Za-z0-9_:]*/y;
const openForm = /[ \t]*\{/y;
const closeForm = /[ \t]*\}/y;
const commaForm = /[ \t]*,/y;
/** A metric name in UTF-8, as Prometheus 3 writes it: `{"a.b",x="1"}`. */
const quotedNameForm = /[ \t]*"((?:[^"\\]|\\.)*)"(?=[ \t]*[,}])/y;
const labelForm = /[ \t]*([A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\]|\\.)*")[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"/y;
/** Value, timestamp, and perhaps an exemplar after a #. */
const restForm = /[ \t]*([^\s#]+)(?:[ \t]+([-+]?[0-9.]+(?:[eE][-+]?\d+)?))?[ \t]*(?:#.*)?$/y;

/** Undefined if the line is not a sample. */
export function parseSample(line: string): TextSample | undefined {
  if (line.length > maxLineLength) return undefined;
  let at = 0;
  const take = (form: RegExp): RegExpExecArray | null => {
    form.lastIndex = at;
    const found = form.exec(line);
    if (found) at = form.lastIndex;
    return found;
  };
  let name = take(nameForm)?.[0];
  const labels: [string, string][] = [];
  if (take(openForm)) {
    while (!take(closeForm)) {
      // The name may be among the labels, in quotes.
      const quoted = name === undefined ? take(quotedNameForm) : null;
      if (quoted) name = unescapeText(quoted[1] ?? "");
      else {
        const label = take(labelForm);
        if (!label || labels.length >= maxLabels) return undefined;
        labels.push([labelName(label[1] ?? ""), unescapeText(label[2] ?? "")]);
      }
      if (!take(commaForm) && line[at] !== "}" && !/^[ \t]+\}/.test(line.slice(at, at + 64))) return undefined;
    }
  }
  const isTooLong = labels.some(([label, value]) => label.length > maxTextLength || value.length > maxTextLength);
  if (name === undefined || name === "" || name.length > maxTextLength || isTooLong) return undefined;
  return withValue(name, labels, take(restForm));
}

function withValue(name: string, labels: [string, string][], rest: RegExpExecArray | null): TextSample | undefined {
  const value = rest === null ? undefined : parseFloatText(rest[1] ?? "");
  if (rest === null || value === undefined) return undefined;
  if (rest[2] === undefined) return { name, labels, value };
  const timestamp = Number(rest[2]);
  return Number.isFinite(timestamp) ? { name, labels, value, timestamp } : undefined;
}

/** Numbers in Go's format: `1.5`, `+Inf`, `NaN`. */
export function parseFloatText(text: string): number | undefined {
  if (/^[+-]?inf(?:inity)?$/i.test(text)) return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  if (/^nan$/i.test(text)) return Number.NaN;
  const value = Number(text);
  return text === "" || Number.isNaN(value) ? undefined : value;
}

function labelName(text: string): string {
  return text.startsWith('"') ? unescapeText(text.slice(1, -1)) : text;
}

function unescapeText(text: string): string {
  return text.replace(/\\(.)/g, (_all, one: string) => (one === "n" ? "\n" : one));
}
