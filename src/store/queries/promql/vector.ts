import type { Labels } from "./samples.ts";

/** The value of one series at one time. */
export interface VectorValue {
  labels: Labels;
  value: number;
}

/** What is calculated from a metric is that metric no more. */
export function withoutName(labels: Labels): Labels {
  return withoutLabels(labels, nameOnly);
}

const nameOnly: ReadonlySet<string> = new Set(["__name__"]);

export function withoutLabels(labels: Labels, dropped: ReadonlySet<string>): Labels {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !dropped.has(name)));
}

/** A label that is absent is the same as an empty one. */
export function onlyLabels(labels: Labels, kept: readonly string[]): Labels {
  return Object.fromEntries(kept.flatMap((name) => (labels[name] ? [[name, labels[name]]] : [])));
}

/** The same for the same labels, in whatever order. */
export function keyOf(labels: Labels): string {
  const entries = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(entries);
}
