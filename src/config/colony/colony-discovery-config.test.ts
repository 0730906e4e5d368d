import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadColonyConfig } from "./colony-config.ts";
import type { ColonyDiscoveryConfig } from "./colony-discovery-config.ts";

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-config-"));
});
afterEach(() => rm(home, { recursive: true }));

async function load(section: string): Promise<ColonyDiscoveryConfig> {
  const file = join(home, "colony.yaml");
  await writeFile(file, `id: shop-dev-1a2b3c\n${section}`);
  return (await loadColonyConfig({ home, colonyId: "shop-dev-1a2b3c", file, env: {} })).config.serviceDiscovery;
}

describe("colony config: service_discovery", () => {
  it("has defaults for everything", async () => {
    expect(await load("")).toEqual({
      intervalMs: 5_000,
      retentionMs: 30 * 86_400_000,
      stalenessThresholdMs: 3_600_000,
      correlationWindowMs: 5_000,
      externalResolution: {
        enabled: true,
        reverseDns: true,
        dnsServers: [],
        dnsCacheTtlMs: 3_600_000,
        dnsTimeoutMs: 3_000,
        privateAddresses: true,
        cloudProviderDetection: true,
      },
      autoPromotion: { enabled: false, minConfidence: 0.9, minObservationTimeMs: 300_000 },
    });
  });

  it("reads every key", async () => {
    const section = `service_discovery:
  interval: 2s
  retention: 7d
  staleness_threshold: 10m
  correlation_window: 0s
  external_resolution:
    enabled: false
    reverse_dns: false
    dns_servers: [10.0.0.2, "[fd00::2]:5353"]
    dns_cache_ttl: 5m
    dns_timeout: 500ms
    private_addresses: false
    cloud_provider_detection: false
  auto_promotion: { enabled: true, min_confidence: 0.8, min_observation_time: 0s }
`;
    expect(await load(section)).toEqual({
      intervalMs: 2_000,
      retentionMs: 7 * 86_400_000,
      stalenessThresholdMs: 600_000,
      correlationWindowMs: 0,
      externalResolution: {
        enabled: false,
        reverseDns: false,
        dnsServers: ["10.0.0.2", "[fd00::2]:5353"],
        dnsCacheTtlMs: 300_000,
        dnsTimeoutMs: 500,
        privateAddresses: false,
        cloudProviderDetection: false,
      },
      autoPromotion: { enabled: true, minConfidence: 0.8, minObservationTimeMs: 0 },
    });
  });

  it.each([
    ["correlation_window: 1h", "it must be at least 0ms and at most 10m"],
    ["external_resolution: { dns_servers: [dns.example.com] }", "write an IP address"],
    ["external_resolution: { enabled: maybe }", "write true or false"],
    ["auto_promotion: { min_confidence: 90 }", "write a number from 0 to 1"],
    ["dns_cache_ttl: 1h", 'did you mean "service_discovery.external_resolution.dns_cache_ttl"'],
  ])("rejects %s with position and fix", async (line, problem) => {
    await expect(load(`service_discovery:\n  ${line}\n`)).rejects.toThrow(problem);
    await expect(load(`service_discovery:\n  ${line}\n`)).rejects.toThrow(/line 3, column \d+/);
  });
});
