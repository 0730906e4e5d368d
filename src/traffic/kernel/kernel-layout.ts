/** Structures and numbers shared with probes/*.h; a test compares them with the BTF of the object. */

import { coarseLayout, fineLayout } from "../../base/latency-histogram.ts";
import type { LossKind } from "../core/messages.ts";

/** `struct request_key` of probes/requests/request-table.h. */
export const requestKeyLayout = {
  sizeBytes: 40,
  fingerprint: 0,
  remote: 8,
  tgid: 24,
  status: 28,
  server_port: 32,
  role: 34,
  protocol: 35,
  method: 36,
  flags: 37,
} as const;

const durationAt = 32;
const queueAt = durationAt + 4 * fineLayout.bucketCount;
const firstByteAt = queueAt + 4 * coarseLayout.bucketCount;

/** `struct request_stats` of probes/requests/request-table.h. */
export const requestStatsLayout = {
  sizeBytes: firstByteAt + 4 * coarseLayout.bucketCount + 4,
  duration_sum_ns: 0,
  request_bytes: 8,
  response_bytes: 16,
  queue_sum_ns: 24,
  duration: durationAt,
  queue: queueAt,
  first_byte: firstByteAt,
} as const;

/** `struct request_slot` of probes/requests/request-table.h; in use when its state is `slotUsed`. */
export const requestSlotLayout = {
  sizeBytes: requestKeyLayout.sizeBytes + requestStatsLayout.sizeBytes + 40,
  key: 0,
  stats: requestKeyLayout.sizeBytes,
  state: requestKeyLayout.sizeBytes + requestStatsLayout.sizeBytes,
} as const;
export const slotUsed = 2;

/** `struct learn_record` of probes/requests/ring.h. */
export const learnRecordLayout = {
  sizeBytes: 56,
  kind: 0,
  protocol: 1,
  role: 2,
  flags: 3,
  bytes: 4,
  server_port: 6,
  tgid: 8,
  status: 12,
  fingerprint: 16,
  remote: 24,
  comm: 40,
} as const;

/** `struct sweep` of probes/requests/sweep.h. */
export const sweepLayout = {
  sizeBytes: 16,
  responded_before_ns: 0,
  finished: 8,
  connections: 12,
} as const;

/** `enum loss` of probes/requests/connection.h, in its order. */
export const kernelLosses: readonly LossKind[] = [
  "ring-full",
  "routes-full",
  "connections-full",
  "unknown-protocol",
  "undecoded",
  "unreadable",
  "tls-opaque",
  "sampled-out",
];

/** Reserved fingerprints: table full, and named before Coral started. */
export const fingerprints = { other: 0n, unread: 1n } as const;

/** `STATUS_*` shared by all protocols. */
export const statuses = { none: 0, noReply: 1 } as const;

/** `REQUEST_TLS` of a key's flags. */
export const tlsFlag = 1;

/** `enum http_method` of probes/protocol/http1-head.h, from 1 on; the last one means any other. */
export const httpMethods = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "TRACE", "OTHER"] as const;
