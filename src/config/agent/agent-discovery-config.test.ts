import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadAgentConfig } from "./agent-config.ts";
import type { AgentDiscoveryConfig } from "./agent-discovery-config.ts";

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-config-"));
});
afterEach(() => rm(home, { recursive: true }));

async function load(yaml: string): Promise<AgentDiscoveryConfig> {
  const file = join(home, "agent.yaml");
  await writeFile(file, yaml);
  return (await loadAgentConfig({ home, file, env: {} })).config.serviceDiscovery;
}
const problem = async (yaml: string): Promise<string> => {
  const error = await load(yaml).catch((caught: unknown) => caught);
  return error instanceof Error ? error.message : "none";
};

describe("agent config: service_discovery", () => {
  it("reads every key", async () => {
    const config = await load(`service_discovery:
  enabled: true
  methods:
    - type: listening_sockets
      enabled: true
      config:
        scan_interval: 45s
        protocols: [ tcp ]
    - type: connection_tracking
      enabled: true
      config:
        backend: ebpf
    - type: traffic_inspection
      enabled: false
      config:
        sources: [ http_host ]
  name_inference:
    port_mapping:
      8080: api
      3000: frontend
    process_patterns:
      - pattern: 'node.*api\\.js'
        name: api
      - pattern: '^postgres'
        name: postgres
    kubernetes:
      enabled: true
      label_selector: team
  network:
    report_service_ips: false
    resolve_external_ips: false
    dns_cache_ttl: 10m
    detect_cloud_providers: false
  privacy:
    redact_names: [codeword]
    redact_patterns: ['ACME-\\d+']
  report_interval: 60s
  batch_size: 50
`);
    expect(config).toEqual({
      enabled: true,
      methods: ["listening_sockets", "connection_tracking"],
      scanIntervalMs: 45_000,
      protocols: ["tcp"],
      backend: "ebpf",
      trafficSources: ["http_host"],
      names: {
        portMapping: { 8080: "api", 3000: "frontend" },
        patterns: [
          { pattern: "node.*api\\.js", name: "api" },
          { pattern: "^postgres", name: "postgres" },
        ],
        kubernetesLabel: "team",
      },
      network: { reportServiceIps: false, resolveExternalIps: false, dnsCacheTtlMs: 600_000, detectCloudProviders: false },
      redaction: { names: ["codeword"], patterns: ["ACME-\\d+"] },
      reportIntervalMs: 60_000,
      batchSize: 50,
    });
  });

  it("keeps the order of methods and disables unlisted ones", async () => {
    expect((await load("service_discovery: { methods: [ { type: connection_tracking }, { type: listening_sockets } ] }")).methods).toEqual([
      "connection_tracking",
      "listening_sockets",
    ]);
    expect((await load("service_discovery: { methods: [] }")).methods).toEqual([]);
    expect((await load("service_discovery: { name_inference: { kubernetes: { enabled: false } } }")).names.kubernetesLabel).toBeNull();
  });

  it.each([
    ["a broken pattern", "name_inference: { process_patterns: [ { pattern: '(', name: x } ] }", /not a valid regular expression/],
    ["a port out of range", "name_inference: { port_mapping: { 70000: x } }", /a port is a number from 1 to 65535/],
    ["a method twice", "methods: [ { type: listening_sockets }, { type: listening_sockets } ]", /list each method only once/],
    ["an unknown method", "methods: [ { type: magic } ]", /methods/],
    ["an unknown key of a method", "methods: [ { type: listening_sockets, config: { every: 3s } } ]", /every/],
    ["no protocol", "methods: [ { type: listening_sockets, config: { protocols: [] } } ]", /list at least one of tcp, udp/],
    ["a rule that would switch redaction off", "privacy: { redact: false }", /unknown key/],
    ["a broken redaction pattern", "privacy: { redact_patterns: ['['] }", /not a valid regular expression/],
    ["an interval that is too short", "methods: [ { type: listening_sockets, config: { scan_interval: 10ms } } ]", /at least 1s/],
  ])("rejects %s", async (_name, yaml, expected) => {
    expect(await problem(`service_discovery: { ${yaml} }`)).toMatch(expected);
  });
});
