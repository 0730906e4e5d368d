/** The `service_discovery` section of a colony's config: how agents' reports become services and edges, and how the outside gets names. */

import * as z from "zod";
import { duration, section, text } from "../schema/schema-parts.ts";

const flag = (description: string) => z.boolean({ error: "write true or false" }).meta({ kind: "true | false", description });

const ratio = (description: string) =>
  z
    .number({ error: "write a number of 0 to 1" })
    .min(0, "write a number of 0 to 1")
    .max(1, "write a number of 0 to 1")
    .meta({ kind: "number", description });

export const colonyDiscoverySection = section({
  interval: duration("How often what agents reported is turned into services and edges; queries do so too", {
    min: "1s",
    max: "5m",
  }).prefault("5s"),
  retention: duration("Age at which services, endpoints and edges that were not seen again are forgotten", { min: "1h" }).prefault("30d"),
  staleness_threshold: duration("Time without a sight after which a service is stale", { min: "1m" }).prefault("1h"),
  correlation_window: duration("How far apart in time two agents may see the ends of one connection", { min: "0s", max: "10m" }).prefault(
    "5s",
  ),
  external_resolution: section({
    enabled: flag("Give names to addresses outside").prefault(true),
    reverse_dns: flag("Ask DNS for their host names; false sends nothing to anybody").prefault(true),
    dns_servers: z
      .array(
        text("An address", {
          expression: /^[0-9A-Fa-f.:[\]]+$/,
          message: "write an IP address, with a port if it is not 53, such as 10.0.0.2 or [fd00::2]:5353",
        }),
      )
      .max(8, "at most 8 servers are asked")
      .meta({ kind: "list of addresses", description: "DNS servers to ask, such as a private one; default: those of the system" })
      .prefault([]),
    dns_cache_ttl: duration("How long a host name, or that there is none, is kept", { min: "1s", max: "30d" }).prefault("1h"),
    dns_timeout: duration("How long an answer may take", { min: "100ms", max: "1m" }).prefault("3s"),
    private_addresses: flag(
      "Ask the system's DNS servers for private addresses too; servers in dns_servers are asked when they are private themselves",
    ).prefault(true),
    cloud_provider_detection: flag("Match addresses with the providers' ranges that coral network ranges update has installed").prefault(
      true,
    ),
  }),
  auto_promotion: section({
    enabled: flag("Make discovered services managed by rule; coral connect does so by hand").prefault(false),
    min_confidence: ratio("How sure a service's name must be").prefault(0.9),
    min_observation_time: duration("How long it must have been there", { min: "0s", max: "30d" }).prefault("5m"),
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
