/** The `traffic` section of the agent's config: what is seen of requests, in which detail, and at which cost. */

import * as z from "zod";
import { type TrafficProtocol, trafficProtocols } from "../../model/protocols.ts";
import { duration, integer, section, size, text } from "../schema/schema-parts.ts";

const flag = (description: string) => z.boolean({ error: "write true or false" }).meta({ kind: "true | false", description });

/** `1%`, `2.5 %` → 0.01, 0.025. */
const percentage = (description: string, min: number, max: number) =>
  z
    .string({ error: "write a share with a percent sign, such as 1%" })
    .regex(/^\d{1,3}(?:\.\d{1,3})?\s?%$/, "write a share with a percent sign, such as 1%")
    .transform((share) => Number.parseFloat(share) / 100)
    .refine((share) => share >= min && share <= max, `it must be at least ${min * 100}% and at most ${max * 100}%`)
    .meta({ kind: "percent", description });

const isPowerOfTwo = (value: number): boolean => Number.isInteger(Math.log2(value));

/** Names of headers that say what a request is, and hold nobody's secret. */
const defaultHeaders = `accept accept-encoding cache-control connection content-encoding content-length content-type date etag grpc-encoding
  grpc-status grpc-timeout host :authority retry-after server te traceparent transfer-encoding upgrade user-agent vary via x-request-id`.split(
  /\s+/,
);

export const agentTrafficSection = section({
  enabled: flag("Watch requests by kernel hooks; needs root, or CAP_BPF and CAP_PERFMON").prefault(true),
  interval: duration("How often requests are summed up and stored", { min: "1s", max: "5m" }).prefault("10s"),
  disabled_protocols: z
    .array(z.enum(trafficProtocols))
    .meta({ kind: `list of ${trafficProtocols.join(" | ")}`, description: "Protocols that are not decoded and not counted" })
    .prefault([]),
  tls: section({
    enabled: flag("Read requests inside TLS where the library is known: OpenSSL, Node, Go").prefault(true),
    exclude: z
      .array(
        text("A service's name, or an executable's name or path; * stands for anything").max(256, "it must have at most 256 characters"),
      )
      .max(200, "at most 200 patterns are compared")
      .meta({
        kind: "list of text",
        description: "Services and executables whose TLS stays closed, such as payments or /opt/vault/*; * stands for anything",
      })
      .prefault([]),
  }),
  max_request_kinds: integer(
    "Kinds of requests (route, status, peer, process) that the kernel counts apart; more become route `other`",
    256,
    65_536,
  ).prefault(4_096),
  max_connections: integer("Connections that are followed at the same time", 1_024, 1_048_576).prefault(65_536),
  max_routes_per_service: integer("Routes of one service that are told apart; more become `other`", 10, 10_000).prefault(200),
  max_rows: integer("Rows that are stored per interval; those with the fewest requests are joined first", 100, 50_000).prefault(5_000),
  ring_size: size("Buffer between kernel and agent, a power of two", { min: "256KiB", max: "256MiB" })
    .refine(isPowerOfTwo, "it must be a power of two, such as 4MiB or 8MiB")
    .prefault("8MiB"),
  cpu_budget: percentage(
    "Share of a core, per core of the host, that watching may take on average of ten minutes before it leaves out detail",
    0.001,
    0.5,
  ).prefault("1%"),
  capture: section({
    enabled: flag("Let `coral capture` look at single requests").prefault(true),
    max_duration: duration("Longest capture", { min: "1s", max: "1h" }).prefault("5m"),
    max_requests: integer("Most requests of one capture", 1, 100_000).prefault(1_000),
    max_captures: integer("Captures that may run at the same time", 1, 100).prefault(4),
    bodies: flag("Let a capture ask for the beginnings of bodies; secrets in them are masked as far as they are recognised").prefault(true),
    headers: z
      .array(
        text("A header's name", {
          expression: /^:?[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/,
          message: "write the name of a header, such as user-agent",
        }),
      )
      .max(200, "at most 200 headers are kept")
      .meta({ kind: "list of text", description: "Headers that a capture may show; all others stay at the host" })
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
  /** 0..1 of a core, for each core of the host. */
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
