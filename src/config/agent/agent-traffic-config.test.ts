import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadAgentConfig } from "./agent-config.ts";
import type { AgentTrafficConfig } from "./agent-traffic-config.ts";

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-config-"));
});
afterEach(() => rm(home, { recursive: true }));

async function load(yaml: string): Promise<AgentTrafficConfig> {
  const file = join(home, "agent.yaml");
  await writeFile(file, yaml);
  return (await loadAgentConfig({ home, file, env: {} })).config.traffic;
}
const problem = async (yaml: string): Promise<string> => {
  const error = await load(yaml).catch((caught: unknown) => caught);
  return error instanceof Error ? error.message : "none";
};

describe("agent config: traffic", () => {
  it("is on by default, within 1% of each core", async () => {
    const config = await load("labels: {}\n");
    expect(config).toMatchObject({
      enabled: true,
      intervalMs: 10_000,
      disabledProtocols: [],
      tls: { enabled: true, exclude: [] },
      maxRequestKinds: 4_096,
      ringBytes: 8 * 1024 ** 2,
      cpuBudgetRatio: 0.01,
      capture: { enabled: true, maxDurationMs: 300_000, bodies: true },
    });
    expect(config.capture.headers).toContain("content-type");
    expect(config.capture.headers.filter((name) => /cookie|authorization|token|key/.test(name))).toEqual([]);
  });

  it("reads every key", async () => {
    const config = await load(`traffic:
  enabled: false
  interval: 30s
  disabled_protocols: [ kafka, dns ]
  tls: { enabled: false, exclude: [ payments, /opt/vault/* ] }
  max_request_kinds: 8192
  max_connections: 100000
  max_routes_per_service: 50
  max_rows: 1000
  ring_size: 16MiB
  cpu_budget: 2.5%
  capture: { enabled: false, max_duration: 1m, max_requests: 10, max_captures: 1, bodies: false, headers: [ X-Tenant ] }
`);
    expect(config).toEqual({
      enabled: false,
      intervalMs: 30_000,
      disabledProtocols: ["kafka", "dns"],
      tls: { enabled: false, exclude: ["payments", "/opt/vault/*"] },
      maxRequestKinds: 8_192,
      maxConnections: 100_000,
      maxRoutesPerService: 50,
      maxRows: 1_000,
      ringBytes: 16 * 1024 ** 2,
      cpuBudgetRatio: 0.025,
      capture: { enabled: false, maxDurationMs: 60_000, maxRequests: 10, maxCaptures: 1, bodies: false, headers: ["x-tenant"] },
    });
  });

  it.for([
    ["traffic: { ring_size: 5MiB }", "power of two"],
    ["traffic: { cpu_budget: 0.01 }", "write a percentage"],
    ["traffic: { cpu_budget: 99% }", "at most 50%"],
    ["traffic: { interval: 10ms }", "at least 1s"],
    ["traffic: { disabled_protocols: [ smtp ] }", "disabled_protocols"],
    ["traffic: { capture: { headers: [ 'a b' ] } }", "header name"],
    ["traffic: { sampling: 1 }", "sampling"],
  ] as const)("rejects %s", async ([yaml, expected]) => {
    expect(await problem(`${yaml}\n`)).toContain(expected);
  });
});
