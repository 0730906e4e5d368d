/** The `service_discovery` section of the agent's config: what is scanned, how often, and configured service names. */

import * as z from "zod";
import { duration, integer, oneOf, section, text } from "../schema/schema-parts.ts";

const protocols = ["tcp", "udp"] as const;
const trafficSources = ["http_host", "grpc_service"] as const;
const methodTypes = ["listening_sockets", "connection_tracking", "traffic_inspection"] as const;

export type DiscoveryMethodType = (typeof methodTypes)[number];

function expression(description: string) {
  return text(description).superRefine((source, context) => {
    try {
      new RegExp(source);
    } catch (error) {
      // The message already quotes the pattern.
      const why = error instanceof Error ? error.message.replace(/^Invalid regular expression: /, "") : String(error);
      context.addIssue({ code: "custom", message: `not a valid regular expression: ${why}` });
    }
  });
}

function listOf<const T extends readonly [string, ...string[]]>(description: string, values: T) {
  return z
    .array(z.enum(values))
    .min(1, `list at least one of ${values.join(", ")}`)
    .meta({ kind: `list of ${values.join(" | ")}`, description });
}

const enabled = z.boolean({ error: "write true or false" });

const scanInterval = duration("How often sockets are scanned; the first scan runs at start", { min: "1s", max: "1h" }).prefault("30s");

const listeningSockets = z.strictObject({
  type: z.literal("listening_sockets"),
  enabled: enabled.prefault(true),
  config: section({
    scan_interval: scanInterval,
    protocols: listOf("Protocols whose ports are scanned", protocols).prefault([...protocols]),
  }),
});
const connectionTracking = z.strictObject({
  type: z.literal("connection_tracking"),
  enabled: enabled.prefault(true),
  config: section({
    backend: oneOf("auto picks the best backend that works on this host", ["auto", "ebpf", "sock_diag", "procfs"]).prefault("auto"),
  }),
});
const trafficInspection = z.strictObject({
  type: z.literal("traffic_inspection"),
  enabled: enabled.prefault(true),
  config: section({
    sources: listOf("Sources of service names", trafficSources).prefault([...trafficSources]),
  }),
});

const defaultMethods = methodTypes.map((type) => ({ type }));

export const agentDiscoverySection = section({
  enabled: enabled
    .meta({
      kind: "true | false",
      description: "Discover services and connections; services added with coral connect are always monitored",
    })
    .prefault(true),
  methods: z
    .array(z.discriminatedUnion("type", [listeningSockets, connectionTracking, trafficInspection]))
    .max(methodTypes.length, "list each method only once")
    .superRefine((methods, context) => {
      for (const [index, { type }] of methods.entries()) {
        if (methods.findIndex((method) => method.type === type) < index) {
          context.addIssue({ code: "custom", path: [index, "type"], message: "list each method only once" });
        }
      }
    })
    .meta({
      kind: "list of methods",
      description:
        "Discovery methods: listening_sockets (config: scan_interval 30s, protocols [tcp, udp]), connection_tracking (config: backend auto | ebpf | sock_diag | procfs), traffic_inspection (config: sources [http_host, grpc_service]); each with enabled: true | false. Methods that are not listed are off; if several find the same service, the first one wins",
    })
    .prefault(defaultMethods),
  name_inference: section({
    port_mapping: z
      .record(
        z
          .string()
          .regex(/^(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])$/, "a port is a number from 1 to 65535"),
        text("The service's name").max(64, "it must have at most 64 characters"),
      )
      .meta({ kind: "map of text", description: "Service names by port, such as 8080: api; they override every other name" })
      .prefault({}),
    process_patterns: z
      .array(
        z.strictObject({
          pattern: expression("Regular expression matched anywhere in the command line"),
          name: text("The service's name; $1 is the first capture group").max(64, "it must have at most 64 characters"),
        }),
      )
      .max(1_000, "list at most 1000 patterns")
      .meta({
        kind: "list of patterns",
        description:
          "Service names by command line, each with pattern (a regular expression) and name; tried in order, before the built-in patterns",
      })
      .prefault([]),
    kubernetes: section({
      enabled: enabled
        .meta({ kind: "true | false", description: "Read pod labels from downward API files, environment variables or the cluster's API" })
        .prefault(true),
      label_selector: text("The pod label that names the service").max(317, "it must have at most 317 characters").prefault("app"),
    }),
  }),
  network: section({
    report_service_ips: enabled
      .meta({
        kind: "true | false",
        description: "Report the addresses that services listen on and connect from, so that the colony can match connections across hosts",
      })
      .prefault(true),
    resolve_external_ips: enabled
      .meta({
        kind: "true | false",
        description: "Let the colony resolve external addresses by reverse DNS; it skips addresses seen only by agents with false",
      })
      .prefault(true),
    dns_cache_ttl: duration(
      "Maximum cache time of an external address's host name; the shortest among the agents that see it applies. Default: the colony's setting",
      { min: "1s", max: "30d" },
    ).optional(),
    detect_cloud_providers: enabled
      .meta({
        kind: "true | false",
        description:
          "Let the colony match external addresses with cloud providers' ranges; it skips addresses seen only by agents with false",
      })
      .prefault(true),
  }),
  privacy: section({
    redact_names: z
      .array(text("A word").min(3, "it must have at least 3 characters"))
      .max(200, "list at most 200 words")
      .meta({
        kind: "list of text",
        description: "Additional words that mark the value of an option or variable as secret; the built-in words always apply",
      })
      .prefault([]),
    redact_patterns: z
      .array(expression("Regular expression"))
      .max(200, "list at most 200 patterns")
      .meta({
        kind: "list of text",
        description: "Additional regular expressions whose matches are masked in command lines and environments",
      })
      .prefault([]),
  }),
  report_interval: duration("How often every known instance is reported; changes and connections are reported after each scan", {
    min: "1s",
    max: "1h",
  }).prefault("30s"),
  batch_size: integer("Rows per write to the store", 10, 10_000).prefault(1_000),
});

export interface AgentDiscoveryConfig {
  enabled: boolean;
  /** Enabled methods, highest priority first. */
  methods: DiscoveryMethodType[];
  scanIntervalMs: number;
  protocols: (typeof protocols)[number][];
  backend: "auto" | "ebpf" | "sock_diag" | "procfs";
  trafficSources: (typeof trafficSources)[number][];
  names: {
    /** Service name by port. */
    portMapping: Record<string, string>;
    /** Already checked to compile. */
    patterns: { pattern: string; name: string }[];
    /** Null: pod labels are not read. */
    kubernetesLabel: string | null;
  };
  network: {
    reportServiceIps: boolean;
    /** These three limit what the colony does with addresses that this agent reports. */
    resolveExternalIps: boolean;
    detectCloudProviders: boolean;
    /** Absent: the colony's setting applies. */
    dnsCacheTtlMs?: number;
  };
  /** Patterns are already checked to compile. */
  redaction: { names: string[]; patterns: string[] };
  reportIntervalMs: number;
  batchSize: number;
}

export function toAgentDiscovery(file: z.output<typeof agentDiscoverySection>): AgentDiscoveryConfig {
  const { name_inference: names, network, privacy } = file;
  const listening = file.methods.find((method) => method.type === "listening_sockets");
  const tracking = file.methods.find((method) => method.type === "connection_tracking");
  const traffic = file.methods.find((method) => method.type === "traffic_inspection");
  return {
    enabled: file.enabled,
    methods: file.methods.filter((method) => method.enabled).map(({ type }) => type),
    scanIntervalMs: listening?.config.scan_interval ?? 30_000,
    protocols: listening?.config.protocols ?? [...protocols],
    backend: tracking?.config.backend ?? "auto",
    trafficSources: traffic?.config.sources ?? [...trafficSources],
    names: {
      portMapping: names.port_mapping,
      patterns: names.process_patterns,
      kubernetesLabel: names.kubernetes.enabled ? names.kubernetes.label_selector : null,
    },
    network: {
      reportServiceIps: network.report_service_ips,
      resolveExternalIps: network.resolve_external_ips,
      detectCloudProviders: network.detect_cloud_providers,
      ...(network.dns_cache_ttl === undefined ? {} : { dnsCacheTtlMs: network.dns_cache_ttl }),
    },
    redaction: { names: privacy.redact_names, patterns: privacy.redact_patterns },
    reportIntervalMs: file.report_interval,
    batchSize: file.batch_size,
  };
}
