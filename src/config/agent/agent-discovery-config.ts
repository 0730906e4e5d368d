/** The `service_discovery` section of the agent's config: what is looked for, how often, and what people say about names. */

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
      // The pattern's own text stands in the message already.
      const why = error instanceof Error ? error.message.replace(/^Invalid regular expression: /, "") : String(error);
      context.addIssue({ code: "custom", message: `it is no regular expression: ${why}` });
    }
  });
}

function listOf<const T extends readonly [string, ...string[]]>(description: string, values: T) {
  return z
    .array(z.enum(values))
    .min(1, `write at least one of ${values.join(", ")}`)
    .meta({ kind: `list of ${values.join(" | ")}`, description });
}

const enabled = z.boolean({ error: "write true or false" });

const scanInterval = duration("How often sockets are looked at; the first time at once", { min: "1s", max: "1h" }).prefault("30s");

const listeningSockets = z.strictObject({
  type: z.literal("listening_sockets"),
  enabled: enabled.prefault(true),
  config: section({
    scan_interval: scanInterval,
    protocols: listOf("Which ports count", protocols).prefault([...protocols]),
  }),
});
const connectionTracking = z.strictObject({
  type: z.literal("connection_tracking"),
  enabled: enabled.prefault(true),
  config: section({
    backend: oneOf("auto is the best that works here", ["auto", "ebpf", "sock_diag", "procfs"]).prefault("auto"),
  }),
});
const trafficInspection = z.strictObject({
  type: z.literal("traffic_inspection"),
  enabled: enabled.prefault(true),
  config: section({
    sources: listOf("What names a service", trafficSources).prefault([...trafficSources]),
  }),
});

const defaultMethods = methodTypes.map((type) => ({ type }));

export const agentDiscoverySection = section({
  enabled: enabled
    .meta({
      kind: "true | false",
      description: "Look for services and connections; services that were connected by hand are followed all the same",
    })
    .prefault(true),
  methods: z
    .array(z.discriminatedUnion("type", [listeningSockets, connectionTracking, trafficInspection]))
    .max(methodTypes.length, "name each method once")
    .superRefine((methods, context) => {
      for (const [index, { type }] of methods.entries()) {
        if (methods.findIndex((method) => method.type === type) < index) {
          context.addIssue({ code: "custom", path: [index, "type"], message: "name each method once" });
        }
      }
    })
    .meta({
      kind: "list of methods",
      description:
        "Ways to find services: listening_sockets (config: scan_interval 30s, protocols [tcp, udp]), connection_tracking (config: backend auto | ebpf | sock_diag | procfs), traffic_inspection (config: sources [http_host, grpc_service]); each with enabled: true | false. Methods that are not listed are off; of several that find the same, the first counts",
    })
    .prefault(defaultMethods),
  name_inference: section({
    port_mapping: z
      .record(
        z.string().regex(/^(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])$/, "a port is a number of 1 to 65535"),
        text("The service's name").max(64, "it must have at most 64 characters"),
      )
      .meta({ kind: "map of text", description: "Names of services by port, such as 8080: api; certain, whatever else is known" })
      .prefault({}),
    process_patterns: z
      .array(
        z.strictObject({
          pattern: expression("Regular expression, looked for in the command line"),
          name: text("The service's name; $1 is what the first group matched").max(64, "it must have at most 64 characters"),
        }),
      )
      .max(1_000, "at most 1000 patterns are tried")
      .meta({
        kind: "list of patterns",
        description: "Names by command line, each with pattern (a regular expression) and name; tried in order, before the built-in ones",
      })
      .prefault([]),
    kubernetes: section({
      enabled: enabled
        .meta({ kind: "true | false", description: "Ask pods for their labels: files of the downward API, variables, the cluster's API" })
        .prefault(true),
      label_selector: text("The pod label that names the service").max(317, "it must have at most 317 characters").prefault("app"),
    }),
  }),
  network: section({
    report_service_ips: enabled
      .meta({
        kind: "true | false",
        description: "Report the addresses that services answer on and call from, so that the colony knows them again",
      })
      .prefault(true),
    resolve_external_ips: enabled
      .meta({
        kind: "true | false",
        description:
          "Let the colony ask DNS for the host names of outside addresses; with false it asks for none that only such agents see",
      })
      .prefault(true),
    dns_cache_ttl: duration(
      "How long the host name of an outside address is kept at most; of several agents that see it the shortest counts. Default: what the colony's config says",
      { min: "1s", max: "30d" },
    ).optional(),
    detect_cloud_providers: enabled
      .meta({
        kind: "true | false",
        description: "Let the colony look for outside addresses in providers' ranges; with false not for those that only such agents see",
      })
      .prefault(true),
  }),
  privacy: section({
    redact_names: z
      .array(text("A word").min(3, "it must have at least 3 characters"))
      .max(200, "at most 200 words are compared")
      .meta({
        kind: "list of text",
        description: "More words that make the value of an option or variable secret; the built-in ones always apply",
      })
      .prefault([]),
    redact_patterns: z
      .array(expression("Regular expression"))
      .max(200, "at most 200 patterns are tried")
      .meta({
        kind: "list of text",
        description: "Regular expressions whose matches are masked in command lines and environments, besides the built-in ones",
      })
      .prefault([]),
  }),
  report_interval: duration(
    "How often every known instance is reported; changes and connections are reported with the scan that saw them",
    {
      min: "1s",
      max: "1h",
    },
  ).prefault("30s"),
  batch_size: integer("Rows that are handed to the store at once", 10, 10_000).prefault(1_000),
});

export interface AgentDiscoveryConfig {
  enabled: boolean;
  /** Those that are on, in the order of their priority. */
  methods: DiscoveryMethodType[];
  scanIntervalMs: number;
  protocols: (typeof protocols)[number][];
  backend: "auto" | "ebpf" | "sock_diag" | "procfs";
  trafficSources: (typeof trafficSources)[number][];
  names: {
    /** By port. */
    portMapping: Record<string, string>;
    /** Regular expressions that compile. */
    patterns: { pattern: string; name: string }[];
    /** Null: pods are not asked. */
    kubernetesLabel: string | null;
  };
  network: {
    reportServiceIps: boolean;
    /** These three are wishes that the colony follows. */
    resolveExternalIps: boolean;
    detectCloudProviders: boolean;
    /** Absent: what the colony's config says. */
    dnsCacheTtlMs?: number;
  };
  /** The patterns compile. */
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
