/** Requests that services served and sent, as kernel hooks saw them. */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/** One row per window and kind of request. All counts cover that window; histograms merge by adding. */
export const red = defineSignal({
  name: "red",
  description: "Requests of one service in one window: how many, how many failed, how long they took",
  columns: {
    service: "text",
    /** `server` served the request, `client` sent it. */
    role: "text",
    /** A name in src/model/protocols.ts. */
    protocol: "text",
    is_tls: "bool",
    /** The server's port, at either end. */
    server_port: "int",
    /** The peer: the server for a client, the caller for a server. */
    peer_address: "text",
    /** Service on this host at the peer's end, or the requested host name of its address; null when unknown. */
    peer: "text?",
    method: "text",
    route: "text",
    status: "text",
    is_error: "bool",
    window_ms: "int",
    requests: "int",
    request_bytes: "int",
    response_bytes: "int",
    /** Microseconds, summed over `requests`. */
    duration_us: "int",
    /** Microseconds, summed over `queue_samples`. */
    queue_us: "int",
    queue_samples: "int",
    /** First byte of the request to last byte of the response. See docs/traffic.md for bucket numbers. */
    duration_lo: "int",
    duration_counts: "uints",
    queue_lo: "int",
    queue_counts: "uints",
    first_byte_lo: "int",
    first_byte_counts: "uints",
  },
  retention: {
    agent: { maxAgeMs: 6 * hourMs, weight: 6 },
    colony: { maxAgeMs: 24 * hourMs, weight: 6 },
  },
  rollup: {
    keys: [
      ...(["service", "role", "protocol", "is_tls", "server_port", "peer", "peer_address"] as const),
      ...(["method", "route", "status", "is_error"] as const),
    ],
    measures: {
      requests: ["sum"],
      request_bytes: ["sum"],
      response_bytes: ["sum"],
      duration_us: ["sum"],
      queue_us: ["sum"],
      queue_samples: ["sum"],
    },
    histograms: ["duration", "queue", "first_byte"],
  },
});

/** What hooks missed in a window. No row means no loss. */
export const trafficLoss = defineSignal({
  name: "traffic_loss",
  description: "What was not seen of the traffic in one window, and why",
  columns: {
    /**
     * `ring-full`, `routes-full`, `connections-full`, `unknown-protocol`, `undecoded`, `unreadable`, `tls-opaque`, `sampled-out`, `away-seconds`; of one
     * service: `tls-unreadable`, `unix-socket`, `io-uring`.
     */
    loss: "text",
    count: "int",
    window_ms: "int",
    /** Service whose requests are not seen; null for losses of the whole host. */
    service: "text?",
    /** Such as `Java's own TLS is not supported`; empty where the kind of loss says everything. */
    detail: "text?",
  },
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 1 },
    colony: { maxAgeMs: 7 * 24 * hourMs, weight: 1 },
  },
});
