import type { Labels } from "./samples.ts";

/** One sample of an instant vector. */
export interface VectorValue {
  labels: Labels;
  value: number;
}

/** Caches of derived label sets. Label objects are immutable and repeat at every step, so results are kept per object. */
const unnamed = new WeakMap<Labels, Labels>();
const keys = new WeakMap<Labels, string>();

/** A computed value loses its metric name. */
export function withoutName(labels: Labels): Labels {
  if (labels["__name__"] === undefined) return labels;
  let found = unnamed.get(labels);
  if (found === undefined) {
    found = withoutLabels(labels, nameOnly);
    unnamed.set(labels, found);
  }
  return found;
}

const nameOnly: ReadonlySet<string> = new Set(["__name__"]);

export function withoutLabels(labels: Labels, dropped: ReadonlySet<string>): Labels {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !dropped.has(name)));
}

/** An absent label equals an empty one. */
export function onlyLabels(labels: Labels, kept: readonly string[]): Labels {
  return Object.fromEntries(kept.flatMap((name) => (labels[name] ? [[name, labels[name]]] : [])));
}

/** An empty value removes the label. */
export function withLabel(labels: Labels, name: string, value: string): Labels {
  if ((labels[name] ?? "") === value) return labels;
  return value === "" ? withoutLabels(labels, new Set([name])) : { ...labels, [name]: value };
}

/** The same text for equal label sets, whatever their order. */
export function keyOf(labels: Labels): string {
  let key = keys.get(labels);
  if (key === undefined) {
    key = JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
    keys.set(labels, key);
  }
  return key;
}
