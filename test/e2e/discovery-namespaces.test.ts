/** Services and connections of several simulated hosts with an agent each, as the colony shows them. */

import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { EndpointList, ServiceList, Topology, TopologyEdge } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, type DaemonProcess, startAgent, startColony } from "../support/daemon.ts";
import { hasProgram } from "../support/has-program.ts";
import { HostNetwork, type NetworkHost, networkHostsSkipReason } from "../support/network-hosts.ts";
import { runCoral } from "../support/run-coral.ts";
import { waitFor } from "../support/wait-for.ts";
import { fastAgentConfig, fastColonyConfig } from "../support/watched-host.ts";

const skipReason = networkHostsSkipReason();
const routerSkipReason = hasProgram("iptables") ? undefined : "needs iptables, to translate addresses";

const tcpProgram = fileURLToPath(new URL("../support/tcp-program.mjs", import.meta.url));
let directory: string;
let network: HostNetwork;
let colony: ColonyDaemon;
let balancer: string;
const agents = new Map<string, AgentDaemon>();
const hosts = new Map<string, NetworkHost>();

function hostOf(name: string): NetworkHost {
  const host = hosts.get(name);
  if (!host) throw new Error(`there is no host ${name}`);
  return host;
}

/** Starts `node <service>.mjs …` on a host. */
function startService(host: string, service: string, args: string): DaemonProcess {
  const file = join(directory, `${service}.mjs`);
  copyFileSync(tcpProgram, file);
  return hostOf(host).spawn(service, process.execPath, [file, ...args.split(" ")]);
}

async function addAgent(name: string, token: string): Promise<void> {
  const home = join(directory, name);
  mkdirSync(home, { mode: 0o700 });
  agents.set(name, await startAgent({ home, token, config: fastAgentConfig, traffic: true, launcher: hostOf(name).launcher }));
}

async function topology(input: Record<string, unknown> = {}): Promise<Topology> {
  return colony.tool<Topology>("coral_get_topology", input);
}

function edgesOf(found: Topology, from: string, to: string): TopologyEdge[] {
  return found.edges.filter((edge) => edge.from === from && edge.to === to);
}

/**
 * The evidence for an edge without its failed attempts. A caller that starts before its server is refused at first. With BPF events that is a row of the
 * caller's end alone, attributed by address, and whether it exists depends on timing.
 */
function evidenceOfCalls({ evidence }: TopologyEdge): string[] {
  const ofAttempts: readonly string[] = ["client-end", "address-registry"];
  return evidence.filter((one) => !ofAttempts.includes(one));
}

/** Waits until the only edge between two nodes matches. */
async function waitForEdge(from: string, to: string, wanted: Partial<TopologyEdge>): Promise<TopologyEdge> {
  let seen: TopologyEdge[] = [];
  return waitFor(
    `the call ${from} → ${to}`,
    async () => {
      seen = edgesOf(await topology(), from, to);
      const [edge, ...others] = seen;
      const isRight = Object.entries(wanted).every(([key, value]) => edge?.[key as keyof TopologyEdge] === value);
      return others.length === 0 && isRight && edge;
    },
    { intervalMs: 300, details: () => JSON.stringify(seen, undefined, 1) },
  );
}

async function waitForEndpoint(tool: "coral_get_ingress" | "coral_get_egress", service: string, address: string) {
  let seen: EndpointList["endpoints"] = [];
  return waitFor(
    `${tool} of ${service}: ${address}`,
    async () => {
      seen = (await colony.tool<EndpointList>(tool, {})).endpoints;
      return seen.find((endpoint) => endpoint.service === service && endpoint.address === address);
    },
    { intervalMs: 300, details: () => JSON.stringify(seen, undefined, 1) },
  );
}

/** Starts nginx in front of `orders`, or a substitute if it is not installed. Returns its service name. */
function startBalancer(): string {
  const upstream = "10.77.0.12:5000";
  const streamModule = "/usr/lib/nginx/modules/ngx_stream_module.so";
  if (!hasProgram("nginx") || !existsSync(streamModule)) {
    startService("edge", "balancer", `forward 9100 ${upstream}`);
    return "balancer";
  }
  const file = join(directory, "nginx.conf");
  writeFileSync(
    file,
    `load_module ${streamModule}; user root; worker_processes 2; pid ${directory}/nginx.pid; daemon off;
     events { worker_connections 64; }
     stream { server { listen 9100; proxy_pass ${upstream}; } }`,
  );
  hostOf("edge").spawn("nginx", "nginx", ["-c", file, "-e", "stderr"]);
  return "nginx";
}

/** Starts all services. Callers retry, so the order does not matter. */
function startServices(): void {
  startService("beta", "orders", "listen 0.0.0.0 5000 listen :: 5001 call 10.77.0.13 9100");
  startService("alpha", "shop", "listen 0.0.0.0 8080 call 10.77.0.12 5000");
  startService("alpha", "modern", "call fd77::12 5001");
  startService("alpha", "web", "call 10.77.0.13 9100");
  startService("alpha", "mirror", "listen 0.0.0.0 5500 call 10.77.0.11 5500");
  // The other end of these connections has no agent.
  startService("outside", "ledger", "listen 0.0.0.0 6100 listen 0.0.0.0 6101");
  startService("alpha", "billing", "call 10.77.0.99 6100");
  startService("outside", "visitor", "call 10.77.0.11 8080");
  // The same loopback address on two hosts and in a network namespace of one of them, as with containers.
  startService("alpha", "near", "listen 127.0.0.1 6000");
  startService("alpha", "nearby", "call 127.0.0.1 6000");
  startService("beta", "far", "listen 127.0.0.1 6000");
  startService("beta", "farther", "call 127.0.0.1 6000");
  const inner = join(directory, "inner.mjs");
  copyFileSync(tcpProgram, inner);
  const command = `ip link set lo up && exec "$0" "${inner}" listen 127.0.0.1 6000 call 127.0.0.1 6000`;
  hostOf("alpha").spawn("inner", "unshare", ["--net", "sh", "-c", command, process.execPath]);
  if (routerSkipReason !== undefined) return;
  startService("beta", "vault", "listen 0.0.0.0 5002");
  startService("beta", "safe", "listen 0.0.0.0 5003");
  startService("hidden", "miner", "call 10.77.0.12 5002");
  startService("hidden", "digger", "call 10.88.0.1 7000");
  startService("hidden", "cellar", "listen 0.0.0.0 5004");
  startService("alpha", "guest", "call 10.77.0.2 7001");
  for (const [port, target] of [
    ["7000", "10.77.0.12:5003"],
    ["7001", "10.88.0.10:5004"],
  ] as const) {
    hostOf("router").run("iptables", ..."-t nat -A PREROUTING -p tcp -j DNAT --dport".split(" "), port, "--to-destination", target);
  }
}

describe("four hosts with an agent each", () => {
  beforeAll(async () => {
    if (skipReason !== undefined) return;
    directory = mkdtempSync(join(tmpdir(), "coral-net-"));
    network = await HostNetwork.start();
    hosts.set("alpha", await network.add("alpha", 11));
    hosts.set("beta", await network.add("beta", 12));
    hosts.set("edge", await network.add("edge", 13));
    hosts.set("outside", await network.add("outside", 99));
    if (routerSkipReason === undefined) {
      hosts.set("router", await network.add("router", 2));
      hosts.set("hidden", await network.addAlone("hidden"));
      network.hide(hostOf("hidden"), hostOf("router"));
    }
    const home = join(directory, "colony");
    mkdirSync(home, { mode: 0o700 });
    const config = `${fastColonyConfig}advertise: ["10.77.0.1:9000"]\n`;
    colony = await startColony({ home, config, listen: "10.77.0.1:9000", launcher: network.hub.networkLauncher });
    const token = await colony.createJoinToken(4);
    for (const name of ["alpha", "beta", "edge", "hidden"]) if (hosts.has(name)) await addAgent(name, token);

    startServices();
    balancer = `service:${startBalancer()}`;
    await Promise.all([...agents.values()].map((agent) => agent.waitUntilConnected()));
  });

  afterAll(async () => {
    await colony?.stop();
    // This also ends the agents: signals do not reach into a host.
    await network?.[Symbol.asyncDispose]();
    await Promise.all([...agents.values()].map((agent) => agent.ended));
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
  });

  beforeEach((context) => {
    context.skip(skipReason !== undefined, skipReason);
  });

  it("shows a call between two hosts with evidence of both ends", async () => {
    const edge = await waitForEdge("service:shop", "service:orders", { class: "INTERNAL", confidence: 0.9 });
    expect(edge).toMatchObject({
      protocol: "tcp",
      port: 5000,
      connections: 1,
      openConnections: 1,
    });
    expect(evidenceOfCalls(edge)).toEqual(["both-ends"]);
  });

  it("shows a call over IPv6 with evidence of both ends", async () => {
    const edge = await waitForEdge("service:modern", "service:orders", { class: "INTERNAL", confidence: 0.9 });
    expect(edge.port).toBe(5001);
    expect(evidenceOfCalls(edge)).toEqual(["both-ends"]);
  });

  it("shows a load balancer as a service between client and server, and a service that calls itself through it", async () => {
    const wanted = { class: "INTERNAL", confidence: 0.9, port: 9100, openConnections: 1 } as const;
    await waitForEdge("service:web", balancer, wanted);
    await waitForEdge("service:orders", balancer, wanted);
    await waitForEdge(balancer, "service:orders", { class: "INTERNAL", confidence: 0.9, port: 5000, openConnections: 2 });
    const found = await topology();
    expect(edgesOf(found, "service:web", "service:orders")).toEqual([]);
  });

  it("shows a service that calls itself by its host's address as a self-call", async () => {
    await waitForEdge("service:mirror", "service:mirror", { class: "INTERNAL", confidence: 0.9, port: 5500 });
  });

  it("shows clients and servers without an agent as external", async () => {
    await waitForEdge("service:billing", "external:10.77.0.99", { class: "EGRESS", confidence: 0.7, port: 6100 });
    await waitForEdge("external:10.77.0.99", "service:shop", { class: "INGRESS", confidence: 0.7, port: 8080 });
    const [into, out] = [
      await waitForEndpoint("coral_get_ingress", "shop", "10.77.0.99"),
      await waitForEndpoint("coral_get_egress", "billing", "10.77.0.99"),
    ];
    expect(into).toMatchObject({ agents: ["alpha"], servicePort: 8080, port: null, confidence: 0.7, openConnections: 1 });
    expect(out).toMatchObject({ agents: ["alpha"], servicePort: null, port: 6100, confidence: 0.7, openConnections: 1 });
  });

  it("keeps loopback in its host, and in its network namespace", async () => {
    await waitForEdge("service:nearby", "service:near", { class: "INTERNAL", confidence: 0.9, port: 6000 });
    await waitForEdge("service:farther", "service:far", { class: "INTERNAL", confidence: 0.9, port: 6000 });
    await waitForEdge("service:inner", "service:inner", { class: "INTERNAL", confidence: 0.9, port: 6000 });
    const { edges } = await topology();
    expect(
      edges
        .filter((edge) => edge.port === 6000)
        .map(({ from, to }) => `${from} ${to}`)
        .sort(),
    ).toEqual(["service:farther service:far", "service:inner service:inner", "service:nearby service:near"]);
  });

  it("lowers the confidence where NAT translated the client's address", async (context) => {
    context.skip(routerSkipReason !== undefined, routerSkipReason);
    await waitForEdge("service:miner", "service:vault", { class: "INTERNAL", confidence: 0.7, port: 5002 });
    await waitForEdge("external:10.77.0.2", "service:vault", { class: "INGRESS", confidence: 0.7, port: 5002 });
  });

  it("shows both ends as external where NAT translated both addresses", async (context) => {
    context.skip(routerSkipReason !== undefined, routerSkipReason);
    await waitForEdge("service:digger", "external:10.88.0.1", { class: "EGRESS", confidence: 0.7, port: 7000 });
    await waitForEdge("external:10.77.0.2", "service:safe", { class: "INGRESS", confidence: 0.7, port: 5003 });
  });

  it("finds the server where NAT translated only its address", async (context) => {
    context.skip(routerSkipReason !== undefined, routerSkipReason);
    const edge = await waitForEdge("service:guest", "service:cellar", { class: "INTERNAL", confidence: 0.9 });
    expect(evidenceOfCalls(edge)).toEqual(["both-ends", "translated"]);
  });

  it("reports the impact of a service across several hops", async () => {
    const { nodes } = await topology({ service: "orders", direction: "dependents" });
    const dependents = nodes.filter((node) => node.relation === "dependent").map((node) => node.id);
    expect(dependents).toEqual(expect.arrayContaining(["service:shop", "service:modern", "service:web", balancer, "external:10.77.0.99"]));
    expect(dependents).not.toContain("service:near");
    expect(nodes.find((node) => node.id === "service:web")?.distance).toBe(2);
  });

  it("lists services by host, and their processes by the pids there", async () => {
    const { services } = await colony.tool<ServiceList>("coral_list_services", { processes: true });
    const placesOf = (name: string) => services.find((service) => service.service === name)?.agents ?? [];
    expect(placesOf("orders").map((place) => place.hostname)).toEqual(["beta"]);
    const [process] = placesOf("orders")[0]?.processes ?? [];
    expect(hostOf("beta").run("cat", `/proc/${process?.pid}/cmdline`)).toContain("/orders.mjs\0listen");
    expect(process?.listens).toEqual(["tcp 0.0.0.0:5000", "tcp [::]:5001"]);
    // Services without an agent are unknown.
    expect(placesOf("ledger")).toEqual([]);
  });

  it("emits an event for a new external dependency", async () => {
    startService("alpha", "payroll", "call 10.77.0.99 6101");
    const { stdout } = await waitFor("the event", async () => {
      const run = await runCoral(["events", "--kind", "egress-new"], { home: colony.home });
      return run.stdout.includes("payroll") && run;
    });
    expect(stdout).toMatch(/payroll.*10\.77\.0\.99/);
  });

  it("draws the topology as text and as a graph", async () => {
    const run = async (...args: string[]) => (await runCoral(["network", "topology", ...args], { home: colony.home })).stdout;
    expect(await run()).toMatch(/shop[\s\S]*orders/);
    const dot = await run("-o", "dot");
    expect(dot).toMatch(/^digraph "topology" \{\n/);
    expect(dot).toMatch(/\n\}\n$/);
    expect(dot).toMatch(/"service:shop" -> "service:orders"/);
  });

  it("removes a call that has ended", async () => {
    const caller = startService("alpha", "brief", "call 10.77.0.12 5000");
    await waitForEdge("service:brief", "service:orders", { openConnections: 1, confidence: 0.9 });
    await hostOf("alpha").kill(caller);
    await waitForEdge("service:brief", "service:orders", { openConnections: 0, connections: 1, confidence: 0.9 });
  });
});
