/** Groups a route's cells into blocks of equal length on both sides of a deployment. */

import { bucketStartNs, fineLayout, type SparseHistogram } from "../../base/latency-histogram.ts";
import type { BuildFacts, RouteCell } from "../../model/deployments.ts";
import { minBlocks } from "./block-test.ts";

export interface ComparedRoute {
  /** `GET /users/{id}`; empty for all routes together. */
  subject: string;
  before: RouteCell[];
  after: RouteCell[];
}

export interface RouteBlock {
  requests: number;
  errors: number;
  /** Histogram, merged lazily: the comparison of failures does not need it. */
  histogram: () => SparseHistogram;
}

/** Blocks per side: enough to see whether a change lasts, and long enough to limit their correlation. */
const blocksWanted = 8;
const cellsMax = 12;

/** In time order; blocks touch the deployment on both sides. Null when there are too few blocks with `minRequests` on average. */
export function blocksOf(
  route: ComparedRoute,
  facts: BuildFacts,
  minRequests: number,
): { before: RouteBlock[]; after: RouteBlock[] } | null {
  const { cellMs, beforeMs, afterMs } = facts;
  const quieter = Math.min(sumOf(route.before, "requests") / Math.max(1, beforeMs), sumOf(route.after, "requests") / Math.max(1, afterMs));
  if (quieter === 0) return null;
  const leastMs = Math.max(Math.min(afterMs / blocksWanted, beforeMs / blocksWanted, cellsMax * cellMs), minRequests / quieter);
  const blockMs = Math.ceil(leastMs / cellMs - 1e-6) * cellMs;
  if (Math.floor(afterMs / blockMs) < minBlocks.after || Math.floor(beforeMs / blockMs) < minBlocks.before) return null;
  // Nearly empty blocks give no usable percentile.
  const isFull = ({ requests }: RouteBlock): boolean => requests >= Math.max(1, minRequests / 3);
  const before = gather(route.before, Math.floor(beforeMs / blockMs), ({ atMs }) => Math.floor((beforeMs - cellMs - atMs) / blockMs));
  const after = gather(route.after, Math.floor(afterMs / blockMs), ({ atMs }) => Math.floor(atMs / blockMs));
  return { before: before.reverse().filter(isFull), after: after.filter(isFull) };
}

function gather(cells: readonly RouteCell[], count: number, indexOf: (cell: RouteCell) => number): RouteBlock[] {
  const groups = Array.from({ length: count }, (): RouteCell[] => []);
  for (const cell of cells) groups[indexOf(cell)]?.push(cell);
  return groups.map((group) => ({
    requests: sumOf(group, "requests"),
    errors: sumOf(group, "errors"),
    histogram: () => histogramOf(group),
  }));
}

export function sumOf(cells: readonly Pick<RouteCell, "requests" | "errors">[], field: "requests" | "errors"): number {
  return cells.reduce((total, cell) => total + cell[field], 0);
}

export function histogramOf(cells: readonly Pick<RouteCell, "histogram">[]): SparseHistogram {
  const [only] = cells;
  if (only !== undefined && cells.length === 1) return only.histogram;
  let [first, end] = [Number.POSITIVE_INFINITY, 0];
  for (const { histogram } of cells) {
    if (histogram.counts.length === 0) continue;
    first = Math.min(first, histogram.lo);
    end = Math.max(end, histogram.lo + histogram.counts.length);
  }
  if (end === 0) return { lo: 0, counts: [] };
  const counts = new Array<number>(end - first).fill(0);
  for (const { histogram } of cells) {
    for (let index = 0; index < histogram.counts.length; index++) {
      const at = histogram.lo + index - first;
      counts[at] = (counts[at] ?? 0) + (histogram.counts[index] ?? 0);
    }
  }
  return { lo: first, counts };
}

/** Interpolates within the bucket of the percentile, so that changes smaller than a bucket are visible. */
export function percentileUs({ lo, counts }: SparseHistogram, share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let upto = 0;
  for (const [index, count] of counts.entries()) {
    if (count > 0 && upto + count >= share * total) {
      const [start, end] = [bucketStartNs(fineLayout, lo + index), bucketStartNs(fineLayout, lo + index + 1)];
      return (start + ((end - start) * (share * total - upto)) / count) / 1_000;
    }
    upto += count;
  }
  return null;
}
