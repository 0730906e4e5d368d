/**
 * Where Coral's files are and what its config says. Paths, private files, YAML with exact errors, and the typed configs of agent, colony and CLI.
 * @module
 */

export type { AgentConfig, AgentFlags, LoadAgentConfigOptions } from "./agent-config.ts";
export { loadAgentConfig } from "./agent-config.ts";
export type { AgentDiscoveryConfig } from "./agent-discovery-config.ts";
export type { AgentExecConfig } from "./agent-exec-config.ts";
export type { ServiceLogsConfig } from "./agent-logs-config.ts";
export type { AgentRuntimeConfig } from "./agent-runtime-config.ts";
export type { AgentScrapeConfig, ScrapeTarget } from "./agent-scrape-config.ts";
export type { AgentTrafficConfig } from "./agent-traffic-config.ts";
export { checkContextsFile } from "./cli-config.ts";
export type { ColonyConfig, ColonyFlags, LoadColonyConfigOptions } from "./colony-config.ts";
export { colonyConfigSchema, loadColonyConfig } from "./colony-config.ts";
export type { ColonyDiscoveryConfig } from "./colony-discovery-config.ts";
export type { ColonyRegistryConfig, LegacyPolicy } from "./colony-registry-config.ts";
export { renderConfigDocument } from "./config-document.ts";
export type { ColonyTarget, Context, Contexts } from "./contexts.ts";
export { listLocalColonies, readContexts, resolveColony } from "./contexts.ts";
export type { AgentPaths, ColonyPaths, HomePaths } from "./home.ts";
export { agentPaths, checkSocketPath, colonyPaths, homePaths, resolveHome } from "./home.ts";
export type { ListenAddress } from "./listen-address.ts";
export type { LoadedConfig } from "./load-config.ts";
export type { LogConfig } from "./log-config.ts";
export type { OtlpConfig } from "./otlp-config.ts";
export type { FileOwner, WriteOptions } from "./ownership.ts";
export { makePrivateDirectory, sudoOwner, writePrivateFile } from "./ownership.ts";
export { saveContext, writeContexts } from "./save-contexts.ts";
export { checkServiceSpec, parseServiceSpec, type ServiceSpec } from "./service-spec.ts";
