import { describe, expect, it } from "vitest";
import { defaultDiscovery } from "./discovery-scan.fixture.ts";
import { registrationLabels } from "./registration-labels.ts";

describe("registrationLabels()", () => {
  it("adds what the colony has to know about outside addresses, when it is not the default", () => {
    expect(registrationLabels({ labels: { zone: "eu" }, serviceDiscovery: defaultDiscovery })).toEqual({ zone: "eu" });
    const network = { reportServiceIps: true, resolveExternalIps: false, dnsCacheTtlMs: 3_600_000, detectCloudProviders: false };
    expect(registrationLabels({ labels: {}, serviceDiscovery: { ...defaultDiscovery, network } })).toEqual({
      "coral/resolve_external_ips": "false",
      "coral/detect_cloud_providers": "false",
      "coral/dns_cache_ttl": "1h",
    });
  });
});
