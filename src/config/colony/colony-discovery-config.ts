/** The `service_discovery` section of a colony's config: how agents' reports become services and edges, and how external addresses are named. */

import * as z from "zod";
import { duration, flag, section, text } from "../schema/schema-parts.ts";

const ratio = (description: string) =>
  z
    .number({ error: "write a number from 0 to 1" })
    .min(0, "write a number from 0 to 1")
    .max(1, "write a number from 0 to 1")
    .meta({ kind: "number", description });

export const colonyDiscoverySection = section({
  interval: duration("How often agents' reports are correlated into services and edges; queries trigger it too", {
    min: "1s",
    max: "5m",
  }).prefault("5s"),
  retention: duration("Age at which unseen services, endpoints and edges are deleted", { min: "1h" }).prefault("30d"),
  staleness_threshold: duration("Time since last seen after which a service is stale", { min: "1m" }).prefault("1h"),
  correlation_window: duration("Maximum time between two agents' sightings of the two ends of one connection", {
    min: "0s",
    max: "10m",
  }).prefault("5s"),
  external_resolution: section({
    enabled: flag("Resolve names of external addresses").prefault(true),
    reverse_dns: flag("Resolve external addresses by reverse DNS; false sends no DNS queries").prefault(true),
    dns_servers: z
      .array(
        text("An address", {
          expression: /^[0-9A-Fa-f.:[\]]+$/,
          message: "write an IP address, with a port unless it is 53, such as 10.0.0.2 or [fd00::2]:5353",
        }),
      )
      .max(8, "list at most 8 servers")
      .meta({ kind: "list of addresses", description: "DNS servers to query, such as a private one; default: the system's servers" })
      .prefault([]),
    dns_cache_ttl: duration("How long host names and failed lookups are cached", { min: "1s", max: "30d" }).prefault("1h"),
    dns_timeout: duration("Timeout of a DNS query", { min: "100ms", max: "1m" }).prefault("3s"),
    private_addresses: flag(
      "Send private addresses to the system's DNS servers too; servers in dns_servers get them only if they have private addresses themselves",
    ).prefault(true),
    cloud_provider_detection: flag("Match addresses with the cloud provider ranges installed by coral network ranges update").prefault(
      true,
    ),
  }),
  auto_promotion: section({
    enabled: flag("Promote discovered services to managed automatically; coral connect promotes one by hand").prefault(false),
    min_confidence: ratio("Minimum confidence in a service's name").prefault(0.9),
    min_observation_time: duration("Minimum time that a service has been observed", { min: "0s", max: "30d" }).prefault("5m"),
  }),
});

export interface ColonyDiscoveryConfig {
  intervalMs: number;
  retentionMs: number;
  stalenessThresholdMs: number;
  correlationWindowMs: number;
  externalResolution: {
    enabled: boolean;
    reverseDns: boolean;
    dnsServers: string[];
    dnsCacheTtlMs: number;
    dnsTimeoutMs: number;
    privateAddresses: boolean;
    cloudProviderDetection: boolean;
  };
  autoPromotion: { enabled: boolean; minConfidence: number; minObservationTimeMs: number };
}

export function toColonyDiscovery(file: z.output<typeof colonyDiscoverySection>): ColonyDiscoveryConfig {
  const { external_resolution: names, auto_promotion: promotion } = file;
  return {
    intervalMs: file.interval,
    retentionMs: file.retention,
    stalenessThresholdMs: file.staleness_threshold,
    correlationWindowMs: file.correlation_window,
    externalResolution: {
      enabled: names.enabled,
      reverseDns: names.reverse_dns,
      dnsServers: names.dns_servers,
      dnsCacheTtlMs: names.dns_cache_ttl,
      dnsTimeoutMs: names.dns_timeout,
      privateAddresses: names.private_addresses,
      cloudProviderDetection: names.cloud_provider_detection,
    },
    autoPromotion: {
      enabled: promotion.enabled,
      minConfidence: promotion.min_confidence,
      minObservationTimeMs: promotion.min_observation_time,
    },
  };
}
