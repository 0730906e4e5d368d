/** The `traffic` section of the agent's config: how requests are traced, in what detail, within which CPU budget. */

import * as z from "zod";
import { type TrafficProtocol, trafficProtocols } from "../../model/protocols.ts";
import { duration, flag, integer, percentage, section, size, text } from "../schema/schema-parts.ts";

const isPowerOfTwo = (value: number): boolean => Number.isInteger(Math.log2(value));

/** Headers that describe a request and carry no secrets. */
const defaultHeaders = `accept accept-encoding cache-control connection content-encoding content-length content-type date etag grpc-encoding
  grpc-status grpc-timeout host :authority retry-after server te traceparent transfer-encoding upgrade user-agent vary via x-request-id`.split(
  /\s+/,
);

export const agentTrafficSection = section({
  enabled: flag("Trace requests with eBPF; needs root, or CAP_BPF and CAP_PERFMON").prefault(true),
  interval: duration("How often request counts are aggregated and stored", { min: "1s", max: "5m" }).prefault("10s"),
  disabled_protocols: z
    .array(z.enum(trafficProtocols))
    .meta({ kind: `list of ${trafficProtocols.join(" | ")}`, description: "Protocols that are neither decoded nor counted" })
    .prefault([]),
  tls: section({
    enabled: flag("Trace requests inside TLS for supported libraries: OpenSSL, Node, Go").prefault(true),
    exclude: z
      .array(text("A service's name, or an executable's name or path; * matches anything").max(256, "it must have at most 256 characters"))
      .max(200, "list at most 200 patterns")
      .meta({
        kind: "list of text",
        description: "Services and executables whose TLS plaintext is not read, such as payments or /opt/vault/*; * matches anything",
      })
      .prefault([]),
  }),
  max_request_kinds: integer(
    "Distinct combinations of route, status, peer and process counted in the kernel; further ones are counted as route `other`",
    256,
    65_536,
  ).prefault(4_096),
  max_connections: integer("Maximum number of concurrently tracked connections", 1_024, 1_048_576).prefault(65_536),
  max_routes_per_service: integer("Maximum number of routes per service; further ones are counted as `other`", 10, 10_000).prefault(200),
  max_rows: integer("Maximum number of rows stored per interval; rows with the fewest requests are merged first", 100, 50_000).prefault(
    5_000,
  ),
  ring_size: size("Size of the ring buffer between kernel and agent, a power of two", { min: "256KiB", max: "256MiB" })
    .refine(isPowerOfTwo, "it must be a power of two, such as 4MiB or 8MiB")
    .prefault("8MiB"),
  cpu_budget: percentage(
    "CPU budget as a share of one core, per core of the host, averaged over ten minutes; above it, tracing drops detail",
    0.001,
    0.5,
  ).prefault("1%"),
  capture: section({
    enabled: flag("Allow `coral capture` to record individual requests").prefault(true),
    max_duration: duration("Maximum duration of a capture", { min: "1s", max: "1h" }).prefault("5m"),
    max_requests: integer("Maximum number of requests in one capture", 1, 100_000).prefault(1_000),
    max_captures: integer("Maximum number of concurrent captures", 1, 100).prefault(4),
    bodies: flag("Allow captures to include the first bytes of bodies; recognised secrets are masked").prefault(true),
    headers: z
      .array(
        text("A header's name", {
          expression: /^:?[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/,
          message: "write a header name, such as user-agent",
        }),
      )
      .max(200, "list at most 200 headers")
      .meta({ kind: "list of text", description: "Headers that a capture may include; all others never leave the host" })
      .prefault(defaultHeaders),
  }),
});

export interface AgentTrafficConfig {
  enabled: boolean;
  intervalMs: number;
  disabledProtocols: TrafficProtocol[];
  tls: { enabled: boolean; exclude: string[] };
  maxRequestKinds: number;
  maxConnections: number;
  maxRoutesPerService: number;
  maxRows: number;
  ringBytes: number;
  /** Share of one core, 0..1, per core of the host. */
  cpuBudgetRatio: number;
  capture: {
    enabled: boolean;
    maxDurationMs: number;
    maxRequests: number;
    maxCaptures: number;
    bodies: boolean;
    /** Lower case. */
    headers: string[];
  };
}

export function toAgentTraffic(file: z.output<typeof agentTrafficSection>): AgentTrafficConfig {
  const { capture } = file;
  return {
    enabled: file.enabled,
    intervalMs: file.interval,
    disabledProtocols: file.disabled_protocols,
    tls: file.tls,
    maxRequestKinds: file.max_request_kinds,
    maxConnections: file.max_connections,
    maxRoutesPerService: file.max_routes_per_service,
    maxRows: file.max_rows,
    ringBytes: file.ring_size,
    cpuBudgetRatio: file.cpu_budget,
    capture: {
      enabled: capture.enabled,
      maxDurationMs: capture.max_duration,
      maxRequests: capture.max_requests,
      maxCaptures: capture.max_captures,
      bodies: capture.bodies,
      headers: capture.headers.map((name) => name.toLowerCase()),
    },
  };
}
