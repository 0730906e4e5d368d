/** PromQL names of OpenTelemetry metrics and attributes. */

import type { MetricKind } from "../../../model/metrics.ts";

const unitWords: Record<string, string> = {
  s: "seconds",
  ms: "milliseconds",
  us: "microseconds",
  ns: "nanoseconds",
  min: "minutes",
  h: "hours",
  d: "days",
  By: "bytes",
  KiBy: "kibibytes",
  MiBy: "mebibytes",
  GiBy: "gibibytes",
  KBy: "kilobytes",
  MBy: "megabytes",
  GBy: "gigabytes",
  m: "meters",
  V: "volts",
  A: "amperes",
  J: "joules",
  W: "watts",
  g: "grams",
  Cel: "celsius",
  Hz: "hertz",
  "%": "percent",
};

/** The part of a metric that a name selects. */
export type NamedPart = "value" | "bucket" | "count" | "sum";

export interface MetricName {
  name: string;
  unit: string;
  kind: MetricKind;
  isMonotonic: boolean;
}

export interface PrometheusName {
  text: string;
  part: NamedPart;
}

/** All names that select the metric. The name that Prometheus would use is the first for each part. */
export function prometheusNames({ name, unit, kind, isMonotonic }: MetricName): PrometheusName[] {
  const isCounter = kind === "sum" && isMonotonic;
  const plain = prometheusLabel(name);
  const stem = isCounter ? plain.replace(/_total$/, "") : plain;
  const word = unitWord(unit, kind);
  const full = word === "" || stem.endsWith(`_${word}`) ? stem : `${stem}_${word}`;
  const bases = [...new Set([full, stem, plain, name])];
  if (kind === "histogram" || kind === "exponential_histogram" || kind === "summary") {
    const parts: NamedPart[] = kind === "summary" ? ["sum", "count", "value"] : ["bucket", "sum", "count"];
    return parts.flatMap((part) => bases.map((base) => ({ text: part === "value" ? base : `${base}_${part}`, part })));
  }
  const withTotal = isCounter ? [`${full}_total`, `${stem}_total`] : [];
  return [...new Set([...withTotal, ...bases])].map((text) => ({ text, part: "value" }));
}

export function prometheusLabel(name: string): string {
  const text = name.replace(/[^A-Za-z0-9_:]/g, "_");
  return /^\d/.test(text) ? `_${text}` : text;
}

function unitWord(unit: string, kind: MetricKind): string {
  // Text in braces is a UCUM annotation, not a unit.
  const bare = unit.replace(/\{[^}]*\}/g, "");
  if (bare === "1") return kind === "gauge" ? "ratio" : "";
  const [first = "", per] = bare.split("/");
  const word = unitWords[first] ?? prometheusLabel(first);
  return per === undefined || per === "" ? word : `${word}${word === "" ? "" : "_"}per_${perWord(per)}`;
}

function perWord(unit: string): string {
  const word = unitWords[unit] ?? prometheusLabel(unit);
  return word.endsWith("s") ? word.slice(0, -1) : word;
}
