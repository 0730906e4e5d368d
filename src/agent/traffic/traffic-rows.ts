/** Turns the requests of one window into rows: merges groups, and bounds their number. */

import { mergeHistograms, type SparseHistogram } from "../../base/latency-histogram.ts";
import type { RowOf, red, SampleTime } from "../../store/signals/index.ts";
import type { RequestGroup } from "../../traffic/index.ts";

export type RedRow = RowOf<typeof red.columns>;

/** Requests with the names of both ends. */
export interface NamedGroup {
  group: RequestGroup;
  service: string;
  peer: string | null;
}

/** The rows of one window. */
export interface TrafficRows {
  rows: RedRow[];
  /** Requests that lost their route here, because there were too many kinds. */
  foldedRequests: number;
}

export interface TrafficRowsOptions {
  time: SampleTime;
  windowMs: number;
  maxRows: number;
  /** Unnamed clients per service with their own address; others become `*`. Default 32. */
  maxCallers?: number;
}

interface Kind {
  service: string;
  role: string;
  protocol: string;
  isTls: boolean;
  serverPort: number;
  peerAddress: string;
  peer: string | null;
  method: string;
  route: string;
  status: string;
  isError: boolean;
}

interface Sum extends Kind {
  requests: number;
  requestBytes: number;
  responseBytes: number;
  durationNs: number;
  queueNs: number;
  queueCount: number;
  duration: SparseHistogram;
  queue: SparseHistogram;
  firstByte: SparseHistogram;
}

const anyAddress = "*";
/** Longer routes are truncated: normalised SQL statements can be a page long. */
const maxRouteLength = 1_000;

/** Pure. Sums groups of equal kind, merges rare callers, and bounds the number of rows. */
export function trafficRows(groups: readonly NamedGroup[], options: TrafficRowsOptions): TrafficRows {
  const sums = new Map<string, Sum>();
  const isCallerKept = chooseCallers(groups, options.maxCallers ?? 32);
  for (const named of groups) add(sums, sumOf(named, isCallerKept));
  const { kept, foldedRequests } = bounded(sums, options.maxRows);
  return { rows: kept.map((sum) => rowOf(sum, options)), foldedRequests };
}

const keyOf = ({ service, role, protocol, isTls, serverPort, peerAddress, peer, method, route, status, isError }: Kind): string =>
  [service, role, protocol, isTls, serverPort, peerAddress, peer ?? "\u0001", method, route, status, isError].join("\u0000");

function add(sums: Map<string, Sum>, sum: Sum): void {
  const key = keyOf(sum);
  const known = sums.get(key);
  if (!known) {
    sums.set(key, sum);
    return;
  }
  known.requests += sum.requests;
  known.requestBytes += sum.requestBytes;
  known.responseBytes += sum.responseBytes;
  known.durationNs += sum.durationNs;
  known.queueNs += sum.queueNs;
  known.queueCount += sum.queueCount;
  known.duration = mergeHistograms(known.duration, sum.duration);
  known.queue = mergeHistograms(known.queue, sum.queue);
  known.firstByte = mergeHistograms(known.firstByte, sum.firstByte);
}

/** A row's key and counts. Long names are truncated, so that a client cannot make rows large. */
function sumOf({ group, service, peer }: NamedGroup, isCallerKept: (service: string, address: string) => boolean): Sum {
  const isKept = group.role === "client" || peer !== null || isCallerKept(service, group.peerAddress);
  return {
    service,
    role: group.role,
    protocol: group.protocol,
    isTls: group.isTls,
    serverPort: group.serverPort,
    peerAddress: isKept ? group.peerAddress : anyAddress,
    peer,
    method: group.method.slice(0, 64),
    route: group.route.length > maxRouteLength ? `${group.route.slice(0, maxRouteLength)}…` : group.route,
    status: group.status.slice(0, 64),
    isError: group.isError,
    requests: group.count,
    requestBytes: group.requestBytes,
    responseBytes: group.responseBytes,
    durationNs: group.durationSumNs,
    queueNs: group.queueSumNs,
    queueCount: group.queueCount,
    duration: group.duration,
    queue: group.queue,
    firstByte: group.firstByte,
  };
}

/** A public service has thousands of clients: those with the most requests keep their address, others are merged. */
function chooseCallers(groups: readonly NamedGroup[], maxCallers: number): (service: string, address: string) => boolean {
  const callers = new Map<string, Map<string, number>>();
  for (const { group, service, peer } of groups) {
    if (group.role !== "server" || peer !== null) continue;
    const counts = callers.get(service) ?? new Map<string, number>();
    callers.set(service, counts);
    counts.set(group.peerAddress, (counts.get(group.peerAddress) ?? 0) + group.count);
  }
  const kept = new Map<string, ReadonlySet<string>>();
  for (const [service, counts] of callers) {
    if (counts.size <= maxCallers) continue;
    const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, maxCallers);
    kept.set(service, new Set(most.map(([address]) => address)));
  }
  return (service, address) => kept.get(service)?.has(address) ?? true;
}

/** Merges the kinds with the fewest requests, in two steps; no request is dropped while there are fewer services than rows. */
function bounded(sums: ReadonlyMap<string, Sum>, maxRows: number): { kept: Sum[]; foldedRequests: number } {
  if (sums.size <= maxRows) return { kept: [...sums.values()], foldedRequests: 0 };
  const sorted = [...sums.values()].sort((a, b) => b.requests - a.requests);
  let folded = new Map<string, Sum>();
  for (const coarse of [
    (sum: Sum): Sum => ({ ...sum, peerAddress: anyAddress, peer: null, method: "", route: "other" }),
    (sum: Sum): Sum => ({
      ...sum,
      peerAddress: anyAddress,
      peer: null,
      method: "",
      route: "other",
      status: "",
      isTls: false,
      serverPort: 0,
    }),
  ]) {
    for (let kept = Math.floor(maxRows * 0.9); kept >= 0; kept = kept > 0 ? Math.floor(kept / 2) : -1) {
      folded = new Map();
      for (const sum of sorted.slice(kept)) add(folded, coarse(sum));
      if (kept + folded.size > maxRows && kept > 0) continue;
      if (kept + folded.size > maxRows) break;
      return { kept: [...sorted.slice(0, kept), ...folded.values()], foldedRequests: routedIn(sorted.slice(kept)) };
    }
  }
  const most = [...folded.values()].sort((a, b) => b.requests - a.requests);
  return { kept: most.slice(0, maxRows), foldedRequests: routedIn(sorted) };
}

/** Requests that still have a route; those without one were counted where they lost it. */
function routedIn(sums: Iterable<Sum>): number {
  let total = 0;
  for (const { requests, route } of sums) if (route !== "other") total += requests;
  return total;
}

const whole = (value: number): number => Math.max(0, Math.round(value));

function rowOf(sum: Sum, { time, windowMs }: TrafficRowsOptions): RedRow {
  return {
    at: time.at,
    mono_ms: time.mono_ms,
    service: sum.service,
    role: sum.role,
    protocol: sum.protocol,
    is_tls: sum.isTls,
    server_port: sum.serverPort,
    peer_address: sum.peerAddress,
    peer: sum.peer,
    method: sum.method,
    route: sum.route,
    status: sum.status,
    is_error: sum.isError,
    window_ms: whole(windowMs),
    requests: whole(sum.requests),
    request_bytes: whole(sum.requestBytes),
    response_bytes: whole(sum.responseBytes),
    duration_us: whole(sum.durationNs / 1_000),
    queue_us: whole(sum.queueNs / 1_000),
    queue_samples: whole(sum.queueCount),
    duration_lo: sum.duration.lo,
    duration_counts: sum.duration.counts,
    queue_lo: sum.queue.lo,
    queue_counts: sum.queue.counts,
    first_byte_lo: sum.firstByte.lo,
    first_byte_counts: sum.firstByte.counts,
  };
}
