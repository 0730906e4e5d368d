/** Local callers of a window's servers. A server sees only a loopback address; matching requests on the client side identify the caller. */

import { isLoopback } from "../../base/ip-address.ts";
import type { SparseHistogram } from "../../base/latency-histogram.ts";
import { remembered } from "../../base/remembered.ts";
import type { RequestGroup } from "../../traffic/index.ts";

/** Requests of one caller; null when its service or its requests are not known. */
export interface CalledGroup {
  group: RequestGroup;
  peer: string | null;
}

/** Relative difference of the counts: requests at the edge of a window may be counted in the next one at the other end. */
const toleranceRatio = 0.05;

/** Valid for one window: built from its client-side groups, then queried for its server-side groups. */
export class WindowCallers {
  /** Requests by caller, for each kind and for each port; null for callers without a known service. */
  readonly #kinds = new Map<string, Map<string | null, number>>();
  readonly #ports = new Map<string, Map<string | null, number>>();

  constructor(groups: readonly RequestGroup[], serviceOf: (client: RequestGroup) => string | null) {
    for (const group of groups) {
      if (group.role !== "client" || !isLoopback(group.peerAddress)) continue;
      const service = serviceOf(group);
      for (const sums of [this.#kinds, this.#ports]) {
        const sent = remembered(sums, sums === this.#kinds ? kindOf(group) : String(group.serverPort), () => new Map());
        sent.set(service, (sent.get(service) ?? 0) + group.count);
      }
    }
  }

  /** Undefined when this window does not show the callers of these requests. */
  of(group: RequestGroup): CalledGroup[] | undefined {
    if (group.role !== "server" || !isLoopback(group.peerAddress)) return undefined;
    const sent = this.#kinds.get(kindOf(group));
    const callers = [...(sent ?? this.#ports.get(String(group.serverPort)) ?? [])];
    if (callers.length === 0) return undefined;
    const [only, ...others] = callers;
    if (only && others.length === 0) return [{ group, peer: only[0] }];
    if (!sent) return [{ group, peer: null }];
    const total = callers.reduce((sum, [, count]) => sum + count, 0);
    if (Math.abs(total - group.count) > group.count * toleranceRatio) return [{ group, peer: null }];
    const parts = splitRequests(
      group,
      callers.map(([, count]) => count),
    );
    return callers.flatMap(([peer], index) => {
      const part = parts[index];
      return part && part.count > 0 ? [{ group: part, peer }] : [];
    });
  }
}

function kindOf({ serverPort, protocol, method, route, status, isError }: RequestGroup): string {
  return [serverPort, protocol, method, route, status, isError].join("\u0000");
}

/**
 * Divides a server's requests of one kind among its callers by the number that each of them sent. Counts add up exactly; times are divided
 * in proportion, because the server does not know which caller a request came from.
 */
function splitRequests(group: RequestGroup, sent: readonly number[]): RequestGroup[] {
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
