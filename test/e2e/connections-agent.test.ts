/** Connections at the colony when an agent uses both BPF events and scans every second: each one once. */

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { AgentStatus, Topology, TopologyEdge } from "../../src/tools/index.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { freePort } from "../support/held-port.ts";
import { waitFor } from "../support/wait-for.ts";
import { WatchedHost } from "../support/watched-host.ts";

const why = probesSkipReason();

const serverCode = `
  require("node:net").createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (data) => (String(data).startsWith("stay") ? socket.write("yes") : socket.end("answer!")));
  }).listen(Number(process.argv[1]), "127.0.0.1");`;

/** Opens long connections that stay, then short ones, then attempts at a closed port; prints a line after each part. */
const callerCode = `
  const { connect } = require("node:net");
  const [port, closed, short] = process.argv.slice(1).map(Number);
  const call = (to) => new Promise((resolve) => {
    const socket = connect(to, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.end("ask");
    socket.resume();
    socket.once("close", resolve);
  });
  (async () => {
    const kept = Array.from({ length: 5 }, () => connect(port, "127.0.0.1"));
    for (const socket of kept) socket.write("stay");
    for (let round = 0; round < short / 20; round++) await Promise.all(Array.from({ length: 20 }, () => call(port)));
    for (let attempt = 0; attempt < 7; attempt++) await call(closed);
    console.log("called");
    process.once("SIGUSR2", () => { for (const socket of kept) socket.end(); });
    setInterval(() => undefined, 1000);
  })();`;

let host: WatchedHost;
beforeAll(async () => {
  if (why === undefined) host = await WatchedHost.start({ traffic: true });
});
afterAll(() => host?.[Symbol.asyncDispose]());
beforeEach((context) => {
  context.skip(why !== undefined, why);
});

const edgesTo = async (port: number): Promise<TopologyEdge[]> => {
  const { edges } = await host.colony.tool<Topology>("coral_get_topology", { limit: 10_000, edges: 20_000 });
  return edges.filter((edge) => edge.port === port);
};

describe("an agent with connection events", () => {
  it("reports 2,000 short connections, long ones and refused ones, each once", async () => {
    const [port, closed] = [await freePort(), await freePort()];
    const kitchen = host.spawn([process.execPath, "-e", serverCode, String(port)], { env: { SERVICE_NAME: named("kitchen") } });
    await host.waitForProcess(port, kitchen.pid);
    const waiter = host.spawn([process.execPath, "-e", callerCode, String(port), String(closed), "2000"], {
      env: { SERVICE_NAME: named("waiter") },
    });
    let seen: TopologyEdge[] = [];
    const becomes = (what: string, wanted: Partial<TopologyEdge>, at = port): Promise<unknown> =>
      waitFor(
        what,
        async () => {
          seen = await edgesTo(at);
          const [edge] = seen.filter(({ from }) => from === `service:${named("waiter")}`);
          return edge !== undefined && Object.entries(wanted).every(([name, value]) => edge[name as keyof TopologyEdge] === value);
        },
        { intervalMs: 500, details: () => JSON.stringify(seen, undefined, 1) },
      );
    await becomes("all of them, and those that stay", { connections: 2_005, openConnections: 5, failures: 0, confidence: 0.9 });
    await becomes("refused attempts", { connections: 0, failures: 7 }, closed);
    process.kill(waiter.pid, "SIGUSR2");
    await becomes("the ends of the long ones", { connections: 2_005, openConnections: 0 });
    // Later scans do not report them again.
    await waitFor("five more seconds of scans", settled(5_000));
    const edges = await edgesTo(port);
    expect(edges.map(({ from, to, connections }) => [from, to, connections])).toEqual([
      [`service:${named("waiter")}`, `service:${named("kitchen")}`, 2_005],
    ]);
    expect(edges[0]).toMatchObject({ bytesToServer: 2_000 * 3 + 5 * 4, bytesToClient: 2_000 * 7 + 5 * 3, openConnections: 0 });
  });
});

describe("an agent whose traffic process is killed", () => {
  it("continues with scans, and resumes events without duplicates", async () => {
    const port = await freePort();
    const larder = host.spawn([process.execPath, "-e", serverCode, String(port)], { env: { SERVICE_NAME: named("larder") } });
    await host.waitForProcess(port, larder.pid);
    const start = (short: number) =>
      host.spawn([process.execPath, "-e", callerCode, String(port), "1", String(short)], { env: { SERVICE_NAME: named("cook") } });
    let seen: TopologyEdge[] = [];
    const details = (): string => JSON.stringify(seen, undefined, 1);
    const countIs = (wanted: Partial<TopologyEdge>) => async (): Promise<boolean> => {
      seen = await edgesTo(port);
      const [edge] = seen.filter(({ from }) => from === `service:${named("cook")}`);
      return edge !== undefined && Object.entries(wanted).every(([name, value]) => edge[name as keyof TopologyEdge] === value);
    };
    start(100);
    await waitFor("the first hundred, and five that stay", countIs({ connections: 105, openConnections: 5 }), { intervalMs: 500, details });
    const hooksOff = async (): Promise<boolean> => (await host.agent.status()).notes.some((note) => note.includes("between two scans"));
    const traffic = async () => ((await host.agent.status()) as unknown as AgentStatus).traffic;
    const first = await waitFor("the traffic process", async () => (await traffic())?.pid);
    process.kill(first, "SIGKILL");
    // The gap may be over before the status is read, but the new process remains visible.
    await waitFor("another process", async () => ![first, null, undefined].includes((await traffic())?.pid));
    await waitFor("connection events to resume", async () => !(await hooksOff()));
    start(200);
    await waitFor("the others", countIs({ connections: 310, openConnections: 10 }), { intervalMs: 500, details });
    await waitFor("three more seconds of scans", settled(3_000));
    expect(await countIs({ connections: 310, openConnections: 10 })()).toBe(true);
  });
});

/** Must differ from other programs on the machine: services with equal names get a qualifier. */
function named(role: string): string {
  return `${role}-${process.pid}`;
}

function settled(ms: number): () => boolean {
  const untilMs = performance.now() + ms;
  return () => performance.now() > untilMs;
}
