/** The `otlp` section, the same for agents and colonies: where OpenTelemetry data is received, how much of it is kept, and where it is forwarded. */

import * as z from "zod";
import type { ListenAddress } from "./listen-address.ts";
import { duration, flag, integer, listenAddress, section, size, text } from "./schema-parts.ts";

const defaultPorts = { grpc: 4_317, http: 4_318 } as const;
const loopback = "127.0.0.1";

export function otlpSection(isEnabled: boolean) {
  return section({
    enabled: flag("Receive traces, logs and metrics over OTLP").prefault(isEnabled),
    grpc: section({
      enabled: flag("Receive OTLP over gRPC").prefault(true),
      listen: listenAddress("Listen address for OTLP over gRPC; port 0 picks a free port").prefault(`${loopback}:${defaultPorts.grpc}`),
    }),
    http: section({
      enabled: flag("Receive OTLP over HTTP, as protobuf or JSON").prefault(true),
      listen: listenAddress("Listen address for OTLP over HTTP; port 0 picks a free port").prefault(`${loopback}:${defaultPorts.http}`),
    }),
    token_file: text(
      "File with a bearer token that clients must send: OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20<token>. Default: no token required",
    ).optional(),
    max_body: size("Largest accepted request, before and after decompression", { min: "64KiB", max: "64MiB" }).prefault("16MiB"),
    max_in_flight: size("Total size of requests in flight; further requests are rejected as retryable", {
      min: "1MiB",
      max: "1GiB",
    }).prefault("64MiB"),
    max_connections: integer("Maximum number of connections per protocol", 1, 10_000).prefault(512),
    workers: integer("Maximum number of decode threads; each is started only under load", 1, 16).prefault(2),
    sampling: section({
      budget: size("Spans stored per second; above it, traces with neither errors nor slow spans are sampled. Default: no sampling", {
        min: "1KiB",
      }).optional(),
      slow: duration("Traces with a span of at least this duration are always kept", { min: "1ms", max: "1h" }).prefault("500ms"),
    }),
    forward: section({
      endpoint: text("OTLP/HTTP endpoint to forward all requests to, such as http://collector:4318", {
        expression: /^https?:\/\/[^\s]+$/,
        message: "write a URL such as http://collector:4318",
      }).optional(),
      headers: z
        .record(
          z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/, "write a header name, such as authorization"),
          text("The header's value"),
        )
        .meta({ kind: "map of text", description: "Headers added to forwarded requests, such as authorization" })
        .prefault({}),
      queue: size("Size of the forwarding queue; requests are not forwarded while it is full", { min: "64KiB", max: "1GiB" }).prefault(
        "32MiB",
      ),
    }),
  });
}

export interface OtlpConfig {
  enabled: boolean;
  /** Undefined: listener disabled. */
  grpc: ListenAddress | undefined;
  http: ListenAddress | undefined;
  /** Holds the token that clients must send; undefined: none required. */
  tokenFile: string | undefined;
  maxBodyBytes: number;
  maxInFlightBytes: number;
  maxConnections: number;
  workers: number;
  sampling: { bytesPerSecond: number | undefined; slowMs: number };
  forward: { endpoint: string; headers: Record<string, string>; maxQueueBytes: number } | undefined;
}

export function toOtlp(file: z.output<ReturnType<typeof otlpSection>>): OtlpConfig {
  const { sampling, forward } = file;
  return {
    enabled: file.enabled,
    grpc: file.grpc.enabled ? file.grpc.listen : undefined,
    http: file.http.enabled ? file.http.listen : undefined,
    tokenFile: file.token_file,
    maxBodyBytes: file.max_body,
    maxInFlightBytes: file.max_in_flight,
    maxConnections: file.max_connections,
    workers: file.workers,
    sampling: { bytesPerSecond: sampling.budget, slowMs: sampling.slow },
    forward:
      forward.endpoint === undefined ? undefined : { endpoint: forward.endpoint, headers: forward.headers, maxQueueBytes: forward.queue },
  };
}
