/**
 * Coral's files and config: paths, private files, YAML with precise errors, and the typed configs of agent, colony and CLI.
 * @module
 */

export { type AgentConfig, loadAgentConfig } from "./agent/agent-config.ts";
export type { AgentDiscoveryConfig } from "./agent/agent-discovery-config.ts";
export type { AgentExecConfig } from "./agent/agent-exec-config.ts";
export type { ServiceLogsConfig } from "./agent/agent-logs-config.ts";
export type { AgentProfileConfig } from "./agent/agent-profile-config.ts";
export type { AgentScrapeConfig, ScrapeTarget } from "./agent/agent-scrape-config.ts";
export type { AgentTrafficConfig } from "./agent/agent-traffic-config.ts";
export { type ColonyConfig, colonyConfigSchema, loadColonyConfig } from "./colony/colony-config.ts";
export type { ColonyDiscoveryConfig } from "./colony/colony-discovery-config.ts";
export type { ColonyRegistryConfig, LegacyPolicy } from "./colony/colony-registry-config.ts";
export { renderConfigDocument } from "./config-document.ts";
export { checkContextsFile } from "./home/cli-config.ts";
export {
  type ColonyTarget,
  type Context,
  type Contexts,
  listLocalColonies,
  readContexts,
  resolveColony,
  saveContext,
  writeContexts,
} from "./home/contexts.ts";
export { type AgentPaths, agentPaths, type ColonyPaths, checkSocketPath, colonyPaths, homePaths, resolveHome } from "./home/home.ts";
export { type FileOwner, makePrivateDirectory, sudoOwner, writePrivateFile } from "./home/ownership.ts";
export { checkCredentials, engineOf, type GivenCredentials, parseCredentials } from "./schema/database-credentials.ts";
export type { ListenAddress } from "./schema/listen-address.ts";
export type { LogConfig } from "./schema/log-config.ts";
export type { OtlpConfig } from "./schema/otlp-config.ts";
export { checkServiceSpec, parseServiceSpec, type ServiceSpec } from "./schema/service-spec.ts";
