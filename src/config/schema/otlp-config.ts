/** The `otlp` section, the same for agents and colonies: where OpenTelemetry's data is taken, how much of it, and where it goes on to. */

import * as z from "zod";
import type { ListenAddress } from "./listen-address.ts";
import { duration, integer, listenAddress, section, size, text } from "./schema-parts.ts";

const flag = (description: string) => z.boolean({ error: "write true or false" }).meta({ kind: "true | false", description });

const defaultPorts = { grpc: 4_317, http: 4_318 } as const;
const loopback = "127.0.0.1";

export function otlpSection(isEnabled: boolean) {
  return section({
    enabled: flag("Take traces, logs and metrics that programs send by OTLP").prefault(isEnabled),
    grpc: section({
      enabled: flag("Take them by gRPC").prefault(true),
      listen: listenAddress("Address of OTLP by gRPC; port 0 picks a free one").prefault(`${loopback}:${defaultPorts.grpc}`),
    }),
    http: section({
      enabled: flag("Take them by HTTP, as protobuf or JSON").prefault(true),
      listen: listenAddress("Address of OTLP by HTTP; port 0 picks a free one").prefault(`${loopback}:${defaultPorts.http}`),
    }),
    token_file: text(
      "File that holds a token which senders must give: OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20<token>. Default: none is needed",
    ).optional(),
    max_body: size("Largest request, also after it was unpacked", { min: "64KiB", max: "64MiB" }).prefault("16MiB"),
    max_in_flight: size("Bytes of requests that are worked on at the same time; more are asked to come back", {
      min: "1MiB",
      max: "1GiB",
    }).prefault("64MiB"),
    max_connections: integer("Connections of each kind", 1, 10_000).prefault(512),
    workers: integer("Threads at most that turn requests into stored rows; each runs only while there is enough to do", 1, 16).prefault(2),
    sampling: section({
      budget: size(
        "Stored spans per second; beyond it a share of the traces without errors that are not slow is kept. Default: all are kept",
        {
          min: "1KiB",
        },
      ).optional(),
      slow: duration("A span of at least this duration makes its trace one that is always kept", { min: "1ms", max: "1h" }).prefault(
        "500ms",
      ),
    }),
    forward: section({
      endpoint: text("Another OTLP endpoint by HTTP that gets the same requests, such as http://collector:4318", {
        expression: /^https?:\/\/[^\s]+$/,
        message: "write an address such as http://collector:4318",
      }).optional(),
      headers: z
        .record(
          z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/, "write the name of a header, such as authorization"),
          text("The header's value"),
        )
        .meta({ kind: "map of text", description: "Headers that are sent along, such as authorization" })
        .prefault({}),
      queue: size("Bytes of requests that may wait to be forwarded; more are not forwarded", { min: "64KiB", max: "1GiB" }).prefault(
        "32MiB",
      ),
    }),
  });
}

export interface OtlpConfig {
  enabled: boolean;
  /** Undefined: that door stays closed. */
  grpc: ListenAddress | undefined;
  http: ListenAddress | undefined;
  /** Holds the token that senders must give; undefined: none is needed. */
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
