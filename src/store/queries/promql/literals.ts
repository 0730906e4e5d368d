/** Number, duration and string literals of PromQL. */

import { CoralError } from "../../../base/errors.ts";

/** A parse error with the position in the expression. */
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

/** A duration such as `1h30m`, or a number of seconds such as `300`. */
export function durationMs(text: string): number {
  return numberValue(text) * 1_000;
}

/** An unsigned number: `0x1f`, `1_000.5e3`, `inf`. A duration is read as seconds. */
export function numberValue(text: string): number {
  const lower = text.toLowerCase();
  if (lower === "inf") return Number.POSITIVE_INFINITY;
  if (lower === "nan") return Number.NaN;
  if (!lower.startsWith("0x") && /[a-df-z]$/.test(lower)) {
    let totalMs = 0;
    for (const [, amount = "0", unit = ""] of lower.matchAll(/(\d+)(ms|[smhdwy])/g)) totalMs += Number(amount) * (unitMs[unit] ?? 0);
    return totalMs / 1_000;
  }
  return Number(lower.replaceAll("_", ""));
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

/** The value of a quoted string literal. */
export function textValue(text: string): string {
  const inner = text.slice(1, -1);
  if (text.startsWith("`")) return inner;
  return inner.replace(/\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([\s\S]))/g, (_all, hex?: string, unicode?: string, one?: string) => {
    if (hex !== undefined || unicode !== undefined) return String.fromCharCode(Number.parseInt(hex ?? unicode ?? "0", 16));
    return escapes[one ?? ""] ?? `\\${one ?? ""}`;
  });
}

/** Formats a number as Prometheus does in a label value: never with an exponent. */
export function numberText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  const [, sign = "", whole = "", fraction = "", exponent] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value)) ?? [];
  if (exponent === undefined) return String(value);
  const shift = Number(exponent);
  const digits = whole + fraction;
  const point = whole.length + shift;
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  return `${sign}${digits.padEnd(point, "0")}`;
}
