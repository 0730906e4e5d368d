/** The agent's config file, `agent/agent.yaml`. Every key is optional. */

import * as z from "zod";
import { agentPaths } from "../home/home.ts";
import { type ListenAddress, listenOverride, withListenFlag } from "../schema/listen-address.ts";
import { type ConfigOverride, environmentOverrides, flagOverrides, type LoadedConfig, loadConfig } from "../schema/load-config.ts";
import type { LogConfig } from "../schema/log-config.ts";
import { type OtlpConfig, otlpSection, toOtlp } from "../schema/otlp-config.ts";
import { duration, integer, listenAddress, logSection, section, size, text } from "../schema/schema-parts.ts";
import { type AgentDiscoveryConfig, agentDiscoverySection, toAgentDiscovery } from "./agent-discovery-config.ts";
import { type AgentExecConfig, agentExecSection, toAgentExec } from "./agent-exec-config.ts";
import { agentLogsList, type ServiceLogsConfig, toServiceLogs } from "./agent-logs-config.ts";
import { type AgentProfileConfig, agentProfileSection, toAgentProfile } from "./agent-profile-config.ts";
import { type AgentRuntimeConfig, agentRuntimeSection, toAgentRuntime } from "./agent-runtime-config.ts";
import { type AgentScrapeConfig, agentScrapeSection, toAgentScrape } from "./agent-scrape-config.ts";
import { type AgentTrafficConfig, agentTrafficSection, toAgentTraffic } from "./agent-traffic-config.ts";

export const agentConfigSchema = z.strictObject({
  colony: section({
    id: text("The colony to report to; default: the one the join token names, or the only one under CORAL_HOME").optional(),
    endpoint: text("host:port of the colony; default: from the join token or the local colony", {
      expression: /^\S+:\d{1,5}$/,
      message: "write host:port, such as colony.example.com:9000",
    }).optional(),
    token_file: text("File with the join token of an agent that has not joined yet").optional(),
  }),
  listen: listenAddress("Listen address of /healthz, /readyz and /metrics; port 0 picks a free port").prefault("127.0.0.1:9001"),
  labels: z
    .record(
      z.string().regex(/^[A-Za-z0-9_./-]{1,63}$/, "a label name has 1 to 63 letters, digits or any of _ . / -"),
      text("The label's value").max(255, "it must have at most 255 characters"),
    )
    .meta({ kind: "map of text", description: "Labels of this agent, shown in listings and available in SQL, such as zone: eu-1" })
    .prefault({}),
  log: logSection,
  store: section({
    max_size: size("Maximum disk usage of the agent's database; the oldest rows are evicted first", { min: "32MiB" }).prefault("512MiB"),
    max_segments: size("Maximum disk usage of stored spans and logs, besides the database; the oldest are evicted first", {
      min: "32MiB",
    }).prefault("1GiB"),
    memory: size("Memory limit of the database engine", { min: "32MiB" }).prefault("64MiB"),
  }),
  host: section({
    interval: duration("How often the host is sampled", { min: "1s", max: "10m" }).prefault("15s"),
    top_processes: integer(
      "Processes kept per sample and ranking (CPU, memory, threads, open files); those of services are kept every minute, and while they are busy",
      0,
      100,
    ).prefault(10),
  }),
  runtime: agentRuntimeSection,
  exec: agentExecSection,
  service_discovery: agentDiscoverySection,
  traffic: agentTrafficSection,
  profiles: agentProfileSection,
  otlp: otlpSection(true),
  scrape: agentScrapeSection,
  logs: agentLogsList,
  health_checks: section({
    interval: duration("How often a connected service is checked; checks of a failing service back off to once a minute", {
      min: "1s",
      max: "10m",
    }).prefault("10s"),
    timeout: duration("Timeout of one check", { min: "50ms", max: "30s" }).prefault("2s"),
    unhealthy_after: integer("Consecutive failed checks before a service is unhealthy", 1, 20).prefault(3),
    healthy_after: integer("Consecutive successful checks before a service is healthy", 1, 20).prefault(2),
  }),
});

export interface AgentConfig {
  colony: { id: string | undefined; endpoint: string | undefined; tokenFile: string | undefined };
  listen: ListenAddress;
  labels: Record<string, string>;
  log: LogConfig;
  store: { maxSizeBytes: number; maxSegmentBytes: number; memoryBytes: number };
  host: { intervalMs: number; topProcesses: number };
  runtime: AgentRuntimeConfig;
  exec: AgentExecConfig;
  serviceDiscovery: AgentDiscoveryConfig;
  traffic: AgentTrafficConfig;
  profiles: AgentProfileConfig;
  otlp: OtlpConfig;
  scrape: AgentScrapeConfig;
  logs: ServiceLogsConfig[];
  healthChecks: { intervalMs: number; timeoutMs: number; unhealthyAfter: number; healthyAfter: number };
}

/** Environment variables that override a key of the file. */
export const agentEnvironment: readonly { variable: string; key: string }[] = [
  { variable: "CORAL_COLONY", key: "colony.id" },
  { variable: "CORAL_COLONY_ENDPOINT", key: "colony.endpoint" },
  { variable: "CORAL_AGENT_LISTEN", key: "listen" },
  { variable: "CORAL_LOG_LEVEL", key: "log.level" },
  { variable: "CORAL_LOG_FORMAT", key: "log.format" },
];

/** Command-line flags that override both. */
export interface AgentFlags {
  colonyId?: string | undefined;
  listen?: string | undefined;
  logLevel?: string | undefined;
  logFormat?: string | undefined;
}

export interface LoadAgentConfigOptions {
  home: string;
  /** Must exist when set. Default: `agent/agent.yaml`, which may be absent. */
  file?: string | undefined;
  env?: Readonly<Record<string, string | undefined>>;
  flags?: AgentFlags;
}

/** Flags > environment > file > defaults. */
export async function loadAgentConfig(options: LoadAgentConfigOptions): Promise<LoadedConfig<AgentConfig>> {
  const { flags = {}, env = process.env } = options;
  const overrides: ConfigOverride[] = [
    ...environmentOverrides(env, agentEnvironment),
    ...flagOverrides([
      ["--colony-id", "colony.id", flags.colonyId],
      ["--listen", "listen", listenOverride(flags.listen)],
      ["--log-level", "log.level", flags.logLevel],
      ["--log-format", "log.format", flags.logFormat],
    ]),
  ];
  const loaded = await loadConfig({
    what: "agent config",
    file: options.file ?? agentPaths(options.home).configFile,
    required: options.file !== undefined,
    schema: agentConfigSchema,
    overrides,
  });
  const config = toAgentConfig(loaded.config);
  return { ...loaded, config: { ...config, listen: withListenFlag(config.listen, flags.listen) } };
}

function toAgentConfig(file: z.output<typeof agentConfigSchema>): AgentConfig {
  return {
    colony: { id: file.colony.id, endpoint: file.colony.endpoint, tokenFile: file.colony.token_file },
    listen: file.listen,
    labels: file.labels,
    log: file.log,
    store: { maxSizeBytes: file.store.max_size, maxSegmentBytes: file.store.max_segments, memoryBytes: file.store.memory },
    host: { intervalMs: file.host.interval, topProcesses: file.host.top_processes },
    runtime: toAgentRuntime(file.runtime),
    exec: toAgentExec(file.exec),
    serviceDiscovery: toAgentDiscovery(file.service_discovery),
    traffic: toAgentTraffic(file.traffic),
    profiles: toAgentProfile(file.profiles),
    otlp: toOtlp(file.otlp),
    scrape: toAgentScrape(file.scrape),
    logs: toServiceLogs(file.logs),
    healthChecks: {
      intervalMs: file.health_checks.interval,
      timeoutMs: file.health_checks.timeout,
      unhealthyAfter: file.health_checks.unhealthy_after,
      healthyAfter: file.health_checks.healthy_after,
    },
  };
}
