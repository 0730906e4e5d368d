import { CoralError } from "../../../base/errors.ts";

export interface Token {
  kind: "number" | "text" | "word" | "duration" | "symbol" | "end";
  text: string;
  at: number;
}

const maxLength = 4_096;

const durationForm = /(?:\d+(?:ms|[smhdwy]))+(?![A-Za-z0-9_])/y;
const numberForm = /(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)/y;
const wordForm = /[A-Za-z_:][A-Za-z0-9_:]*/y;
const textForm = /"(?:[^"\\\n]|\\[\s\S])*"|'(?:[^'\\\n]|\\[\s\S])*'|`[^`]*`/y;
const symbolForm = /=~|!~|==|!=|>=|<=|[-+*/%^=<>(){}[\],:@]/y;
const blankForm = /(?:\s+|#[^\n]*)+/y;

/** Ends with one token of kind `end`. */
export function tokensOf(source: string): Token[] {
  if (source.length > maxLength) throw promqlError(source, 0, `it has more than ${maxLength} characters`);
  const tokens: Token[] = [];
  let at = 0;
  const take = (form: RegExp): string | undefined => {
    form.lastIndex = at;
    return form.exec(source)?.[0];
  };
  const forms: [Token["kind"], RegExp][] = [
    ["duration", durationForm],
    ["number", numberForm],
    ["word", wordForm],
    ["text", textForm],
    ["symbol", symbolForm],
  ];
  for (;;) {
    at += take(blankForm)?.length ?? 0;
    if (at >= source.length) break;
    const found = forms.map(([kind, form]) => ({ kind, text: take(form) })).find(({ text }) => text !== undefined);
    if (found?.text === undefined) throw promqlError(source, at, "not valid PromQL");
    tokens.push({ kind: found.kind, text: found.text, at });
    at += found.text.length;
  }
  tokens.push({ kind: "end", text: "", at: source.length });
  return tokens;
}

/** Names the place, so that people see where. */
export function promqlError(source: string, at: number, why: string): CoralError {
  const near = source.slice(at, at + 20);
  const where = near === "" ? "at its end" : `at "${near}"`;
  return new CoralError({ code: "invalid", message: `Cannot parse PromQL ${where}: ${why}`, details: { at } });
}

const unitMs: Record<string, number> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
  y: 365 * 86_400_000,
};

/** `1h30m`. */
export function durationTokenMs(text: string): number {
  let totalMs = 0;
  for (const [, amount = "0", unit = ""] of text.matchAll(/(\d+)(ms|[smhdwy])/g)) totalMs += Number(amount) * (unitMs[unit] ?? 0);
  return totalMs;
}

const escapes: Record<string, string> = {
  n: "\n",
  t: "\t",
  r: "\r",
  "\\": "\\",
  '"': '"',
  "'": "'",
  a: "\u0007",
  b: "\b",
  f: "\f",
  v: "\v",
};

export function textTokenValue(text: string): string {
  const inner = text.slice(1, -1);
  if (text.startsWith("`")) return inner;
  return inner.replace(/\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([\s\S]))/g, (_all, hex?: string, unicode?: string, one?: string) => {
    if (hex !== undefined || unicode !== undefined) return String.fromCharCode(Number.parseInt(hex ?? unicode ?? "0", 16));
    return escapes[one ?? ""] ?? `\\${one ?? ""}`;
  });
}
