import type { SparseHistogram } from "../../base/latency-histogram.ts";
import type { RequestGroup } from "../../traffic/index.ts";

/**
 * Divides a server's requests of one kind among its callers by the number that each of them sent. Counts add up exactly; times are divided
 * in proportion, because the server does not know which caller a request came from.
 */
export function splitRequests(group: RequestGroup, sent: readonly number[]): RequestGroup[] {
  const total = sent.reduce((sum, count) => sum + count, 0);
  const counts = divide(group.count, sent);
  const histograms = (histogram: SparseHistogram): SparseHistogram[] => {
    const buckets = histogram.counts.map((count) => divide(count, sent));
    return sent.map((_, index) => ({ lo: histogram.lo, counts: buckets.map((parts) => parts[index] ?? 0) }));
  };
  const [duration, queue, firstByte] = [histograms(group.duration), histograms(group.queue), histograms(group.firstByte)];
  const queueCounts = divide(group.queueCount, sent);
  return sent.map((count, index) => {
    const share = count / total;
    return {
      ...group,
      count: counts[index] ?? 0,
      requestBytes: group.requestBytes * share,
      responseBytes: group.responseBytes * share,
      durationSumNs: group.durationSumNs * share,
      queueSumNs: group.queueSumNs * share,
      queueCount: queueCounts[index] ?? 0,
      duration: duration[index] ?? group.duration,
      queue: queue[index] ?? group.queue,
      firstByte: firstByte[index] ?? group.firstByte,
    };
  });
}

/** Whole numbers in proportion to `weights` that add up to `total`. */
function divide(total: number, weights: readonly number[]): number[] {
  const sum = weights.reduce((all, weight) => all + weight, 0);
  let before = 0;
  let given = 0;
  return weights.map((weight) => {
    before += weight;
    const part = Math.round((total * before) / sum) - given;
    given += part;
    return part;
  });
}
