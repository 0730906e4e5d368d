/** Selects the spans of a trace to display, and draws the branches of its tree. */

import type { TraceSpan } from "../../../../tools/index.ts";

/** A span, or the number of spans omitted here. */
export interface TraceLine {
  span: TraceSpan | null;
  depth: number;
  /** Index of the parent's line; undefined for roots. */
  parent: TraceSpan | undefined;
  hidden: { spans: number; longestNs: number } | null;
}

/** At most `maxLines` spans: the critical path, failed spans and the longest ones, each with its ancestors. */
export function chooseLines(spans: readonly TraceSpan[], maxLines: number): TraceLine[] {
  const parents = parentsOf(spans);
  const kept = spans.length <= maxLines ? undefined : keptSpans(spans, parents, maxLines);
  const lines: TraceLine[] = [];
  /** Stack of kept spans whose children are being listed, with their omitted spans. */
  const open: { index: number; depth: number; spans: number; longestNs: number }[] = [{ index: -1, depth: -1, spans: 0, longestNs: 0 }];
  const close = (depth: number): void => {
    for (let last = open.at(-1); last && last.depth >= depth; last = open.at(-1)) {
      open.pop();
      addHidden(lines, last, spans[last.index]);
    }
  };
  for (const [index, span] of spans.entries()) {
    if (kept === undefined || kept.has(index)) {
      close(span.depth);
      lines.push({ span, depth: span.depth, parent: spans[parents[index] ?? -1], hidden: null });
      open.push({ index, depth: span.depth, spans: 0, longestNs: 0 });
      continue;
    }
    // The nearest kept ancestor counts omitted spans.
    while (open.length > 1 && (open.at(-1)?.depth ?? -1) >= span.depth) close(open.at(-1)?.depth ?? 0);
    const place = open.at(-1);
    if (place) {
      place.spans++;
      place.longestNs = Math.max(place.longestNs, span.durationNs);
    }
  }
  close(-1);
  return lines;
}

/** A line for omitted spans follows the last kept child of the same parent. */
function addHidden(lines: TraceLine[], place: { depth: number; spans: number; longestNs: number }, parent: TraceSpan | undefined): void {
  if (place.spans === 0) return;
  lines.push({ span: null, depth: place.depth + 1, parent, hidden: { spans: place.spans, longestNs: place.longestNs } });
}

/** Parent index of each span; -1 for roots. Spans are in depth-first order. */
function parentsOf(spans: readonly TraceSpan[]): Int32Array {
  const parents = new Int32Array(spans.length).fill(-1);
  const path: number[] = [];
  for (const [index, { depth }] of spans.entries()) {
    path.length = Math.min(path.length, depth);
    parents[index] = path.at(-1) ?? -1;
    path.push(index);
  }
  return parents;
}

/**
 * Ranks by critical path, then failure, then duration: 2e18 and 1e18 exceed any duration in nanoseconds. A span is kept only
 * together with all of its ancestors, or its place in the tree would be unclear.
 */
function keptSpans(spans: readonly TraceSpan[], parents: Int32Array, maxLines: number): Set<number> {
  const rank = ({ criticalNs, status, durationNs }: TraceSpan): number =>
    (criticalNs !== null && criticalNs > 0 ? 2e18 : 0) + (status === "error" ? 1e18 : 0) + durationNs;
  const order = spans.map((span, index) => ({ index, rank: rank(span) })).sort((a, b) => b.rank - a.rank || a.index - b.index);
  const kept = new Set<number>();
  for (const { index } of order) {
    const added: number[] = [];
    for (let at = index; at >= 0 && !kept.has(at) && added.length <= maxLines; at = parents[at] ?? -1) added.push(at);
    if (kept.size + added.length > maxLines) continue;
    for (const at of added) kept.add(at);
    if (kept.size >= maxLines) break;
  }
  return kept;
}

/** `│ ├ ` before each line; only the deepest `maxLevels` levels, with `…` for omitted ones. */
export function treePrefixes(lines: readonly { depth: number }[], maxLevels: number): string[] {
  const prefixes = new Array<string>(lines.length).fill("");
  /** By depth: whether another line of that depth follows before a shallower one. */
  const follows: boolean[] = [];
  for (let index = lines.length - 1; index >= 0; index--) {
    const depth = lines[index]?.depth ?? 0;
    follows.length = Math.min(follows.length, depth + 1);
    const first = Math.max(1, depth - maxLevels + 1);
    let prefix = first > 1 ? "… " : "";
    for (let level = first; level < depth; level++) prefix += follows[level] ? "│ " : "  ";
    if (depth > 0) prefix += follows[depth] ? "├ " : "└ ";
    prefixes[index] = prefix;
    follows[depth] = true;
  }
  return prefixes;
}
