/** Generated requests: their stored row, and the values that a query must return. */

import { bucketOf, fineLayout, percentileNs, type SparseHistogram, sparse } from "../../base/latency-histogram.ts";
import type { SignalRows } from "./stored-hosts.fixture.ts";

export type RedRow = NonNullable<SignalRows["red"]>[number];

export interface MadeRequest {
  atMs: number;
  service: string;
  role: string;
  route: string;
  /** 500 and above are errors. */
  status: string;
  durationNs: number;
}

export const isError = ({ status }: MadeRequest): boolean => status.startsWith("5");

/** The row for requests that differ only in duration and had no queue time. */
export function redRowOf(requests: readonly MadeRequest[], more: Partial<RedRow> = {}): RedRow {
  const first = requests[0] as MadeRequest;
  const duration = durationsOf(requests);
  return {
    atMs: first.atMs,
    service: first.service,
    role: first.role,
    protocol: "http",
    server_port: 80,
    peer_address: "10.0.0.9",
    method: "GET",
    route: first.route,
    status: first.status,
    is_error: isError(first),
    window_ms: 10_000,
    requests: requests.length,
    request_bytes: 10 * requests.length,
    response_bytes: 100 * requests.length,
    duration_us: Math.round(requests.reduce((sum, { durationNs }) => sum + durationNs / 1_000, 0)),
    queue_us: 0,
    queue_samples: 0,
    duration_lo: duration.lo,
    duration_counts: duration.counts,
    queue_counts: [],
    first_byte_counts: [],
    ...more,
  };
}

export function percentileUs(requests: readonly MadeRequest[], share: number): number {
  return (percentileNs(fineLayout, durationsOf(requests), share) ?? 0) / 1_000;
}

function durationsOf(requests: readonly MadeRequest[]): SparseHistogram {
  const counts = new Array<number>(fineLayout.bucketCount).fill(0);
  for (const { durationNs } of requests) counts[bucketOf(fineLayout, durationNs)]! += 1;
  return sparse(counts);
}
