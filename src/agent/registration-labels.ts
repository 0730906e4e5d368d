import { formatDurationMs } from "../base/units.ts";
import type { AgentConfig } from "../config/index.ts";

/**
 * The labels that an agent registers with: the user's, and what its config says about names of outside addresses, which the colony looks up.
 * Only what differs from the defaults is said.
 */
export function registrationLabels({ labels, serviceDiscovery }: Pick<AgentConfig, "labels" | "serviceDiscovery">): Record<string, string> {
  const { network } = serviceDiscovery;
  return {
    ...labels,
    ...(network.resolveExternalIps ? {} : { "coral/resolve_external_ips": "false" }),
    ...(network.detectCloudProviders ? {} : { "coral/detect_cloud_providers": "false" }),
    ...(network.dnsCacheTtlMs === undefined ? {} : { "coral/dns_cache_ttl": formatDurationMs(network.dnsCacheTtlMs) }),
  };
}
