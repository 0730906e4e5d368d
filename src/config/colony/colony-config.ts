/** A colony's config file, `colonies/<id>/colony.yaml`: written by `coral init`, every key but `id` optional. */

import * as z from "zod";
import { colonyPaths } from "../home/home.ts";
import { type ListenAddress, listenOverride, withListenFlag } from "../schema/listen-address.ts";
import { type ConfigOverride, environmentOverrides, flagOverrides, type LoadedConfig, loadConfig } from "../schema/load-config.ts";
import type { LogConfig } from "../schema/log-config.ts";
import { type OtlpConfig, otlpSection, toOtlp } from "../schema/otlp-config.ts";
import { duration, integer, listenAddress, logSection, section, size, text } from "../schema/schema-parts.ts";
import { type ColonyDiscoveryConfig, colonyDiscoverySection, toColonyDiscovery } from "./colony-discovery-config.ts";
import { type ColonyRegistryConfig, colonyRegistrySection, toColonyRegistry } from "./colony-registry-config.ts";

export const colonyConfigSchema = z
  .strictObject({
    id: text("Made by coral init; agents, certificates and tokens name it", {
      expression: /^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$/,
      message: "a colony id holds lower-case letters, digits and dashes, such as shop-dev-1a2b3c",
    }),
    name: text("The application's name; default: the id").optional(),
    environment: text("Such as dev, staging or prod").prefault("dev"),
    listen: listenAddress("The one address for agents, the CLI, MCP and /metrics; port 0 picks a free one").prefault("127.0.0.1:9000"),
    advertise: z
      .array(text("host:port", { expression: /^\S+:\d{1,5}$/, message: "write host:port, such as colony.example.com:9000" }))
      .max(8, "at most 8 endpoints fit into a token")
      .meta({ kind: "list of host:port", description: "Endpoints written into tokens, tried in order; default: the listen address" })
      .prefault([]),
    pull: section({
      interval: duration("How often each agent is asked for new rows", { min: "500ms", max: "5m" }).prefault("5s"),
      concurrency: integer("Agents asked at the same time", 1, 1_000).prefault(32),
      timeout: duration("How long one answer may take before the next agent gets the slot", { min: "100ms", max: "5m" }).prefault("10s"),
      max_batch: size("Most row data in one answer", { min: "64KiB", max: "64MiB" }).prefault("4MiB"),
    }),
    health: section({
      degraded_after: duration("Silence after which an agent is degraded", { min: "2s", max: "1d" }).prefault("45s"),
      unhealthy_after: duration("Silence after which an agent is unhealthy", { min: "4s", max: "7d" }).prefault("2m"),
    }),
    store: section({
      max_size: size("Most disk the colony's database may take; the oldest rows go first", { min: "64MiB" }).prefault("4GiB"),
      max_segments: size("Most disk that spans and logs may take beside the database; the oldest go first", { min: "64MiB" }).prefault(
        "16GiB",
      ),
      memory: size("Most memory the database engine may take", { min: "64MiB" }).prefault("192MiB"),
    }),
    retention: z
      .record(
        z.string().regex(/^[a-z][a-z0-9_]*$/, "a signal's name is written in lower case, such as host_process"),
        duration("Age", { min: "1m" }),
      )
      .meta({ kind: "map of duration", description: "Age at which rows of a signal go, by signal name; default: what the signal declares" })
      .prefault({}),
    certificates: section({
      agent_ttl: duration("Life of an agent's certificate; renewed at two thirds of it", { min: "1m", max: "90d" }).prefault("24h"),
    }),
    sql: section({
      max_rows: integer("Most rows that one SQL query returns", 1, 10_000).prefault(10_000),
      timeout: duration("Longest that one SQL query may run", { min: "100ms", max: "60s" }).prefault("10s"),
    }),
    approvals: section({
      allow_own: z
        .boolean({ error: "write true or false" })
        .meta({ kind: "true | false", description: "Whether the one who asked for a command may also approve it" })
        .prefault(false),
    }),
    registry: colonyRegistrySection,
    deployments: section({
      window: duration("How long a new build of a service is compared with the time before, which is twice as long", {
        min: "1m",
        max: "6h",
      }).prefault("30m"),
    }),
    service_discovery: colonyDiscoverySection,
    otlp: otlpSection(false),
    log: logSection,
  })
  .superRefine((config, context) => {
    if (config.health.unhealthy_after > config.health.degraded_after) return;
    context.addIssue({ code: "custom", path: ["health", "unhealthy_after"], message: "it must be longer than health.degraded_after" });
  });

export interface ColonyConfig {
  id: string;
  name: string;
  environment: string;
  listen: ListenAddress;
  /** `host:port`; empty means the listen address. */
  advertise: string[];
  pull: { intervalMs: number; concurrency: number; timeoutMs: number; maxBatchBytes: number };
  health: { degradedAfterMs: number; unhealthyAfterMs: number };
  store: { maxSizeBytes: number; maxSegmentBytes: number; memoryBytes: number };
  /** Signal name → age in milliseconds; only signals that override their own declaration. */
  retentionMs: Record<string, number>;
  certificates: { agentTtlMs: number };
  sql: { maxRows: number; timeoutMs: number };
  approvals: { allowOwn: boolean };
  registry: ColonyRegistryConfig;
  deployments: { windowMs: number };
  serviceDiscovery: ColonyDiscoveryConfig;
  otlp: OtlpConfig;
  log: LogConfig;
}

export const colonyEnvironment: readonly { variable: string; key: string }[] = [
  { variable: "CORAL_COLONY_LISTEN", key: "listen" },
  { variable: "CORAL_LOG_LEVEL", key: "log.level" },
  { variable: "CORAL_LOG_FORMAT", key: "log.format" },
];

export interface ColonyFlags {
  listen?: string | undefined;
  logLevel?: string | undefined;
  logFormat?: string | undefined;
}

export interface LoadColonyConfigOptions {
  home: string;
  colonyId: string;
  /** Default: `colonies/<id>/colony.yaml`. Must exist either way. */
  file?: string | undefined;
  env?: Readonly<Record<string, string | undefined>>;
  flags?: ColonyFlags;
  /** Names that `retention` may use; a typo is reported when given. */
  signals?: readonly string[];
}

/** Flags > environment > file > defaults. */
export async function loadColonyConfig(options: LoadColonyConfigOptions): Promise<LoadedConfig<ColonyConfig>> {
  const { flags = {}, env = process.env } = options;
  const overrides: ConfigOverride[] = [
    ...environmentOverrides(env, colonyEnvironment),
    ...flagOverrides([
      ["--listen", "listen", listenOverride(flags.listen)],
      ["--log-level", "log.level", flags.logLevel],
      ["--log-format", "log.format", flags.logFormat],
    ]),
  ];
  const loaded = await loadConfig({
    what: "colony config",
    file: options.file ?? colonyPaths(options.home, options.colonyId).configFile,
    required: true,
    schema: colonyConfigSchema,
    overrides,
    ...(options.signals ? { allowedRecordKeys: { retention: options.signals } } : {}),
  });
  const config = toColonyConfig(loaded.config);
  return { ...loaded, config: { ...config, listen: withListenFlag(config.listen, flags.listen) } };
}

function toColonyConfig(file: z.output<typeof colonyConfigSchema>): ColonyConfig {
  return {
    id: file.id,
    name: file.name ?? file.id,
    environment: file.environment,
    listen: file.listen,
    advertise: file.advertise,
    pull: {
      intervalMs: file.pull.interval,
      concurrency: file.pull.concurrency,
      timeoutMs: file.pull.timeout,
      maxBatchBytes: file.pull.max_batch,
    },
    health: { degradedAfterMs: file.health.degraded_after, unhealthyAfterMs: file.health.unhealthy_after },
    store: { maxSizeBytes: file.store.max_size, maxSegmentBytes: file.store.max_segments, memoryBytes: file.store.memory },
    retentionMs: file.retention,
    certificates: { agentTtlMs: file.certificates.agent_ttl },
    sql: { maxRows: file.sql.max_rows, timeoutMs: file.sql.timeout },
    approvals: { allowOwn: file.approvals.allow_own },
    registry: toColonyRegistry(file.registry),
    deployments: { windowMs: file.deployments.window },
    serviceDiscovery: toColonyDiscovery(file.service_discovery),
    otlp: toOtlp(file.otlp),
    log: file.log,
  };
}
