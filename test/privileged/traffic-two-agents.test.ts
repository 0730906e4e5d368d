/** Agents that share a kernel: each records requests in its scope, the colony counts each request once. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { AgentList, AgentStatus } from "../../src/tools/index.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { type AgentDaemon, type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";
import { fastAgentConfig, fastColonyConfig } from "../support/watched-host.ts";

const script = fileURLToPath(new URL("../support/http-program.mjs", import.meta.url));
const config = `${fastAgentConfig}\ntraffic:\n  interval: 1s\n  cpu_budget: 50%\notlp:\n  enabled: false\n`;
const requests = 30;

function skipReason(): string | undefined {
  const isAllowed = spawnSync("unshare", ["--pid", "--fork", "--mount-proc", "true"]).status === 0;
  return probesSkipReason() ?? (isAllowed ? undefined : "unshare --pid --mount-proc is not permitted");
}

const reason = skipReason();
const homes: TestHome[] = [];
const children: ChildProcess[] = [];
let colony: ColonyDaemon;
/** Two agents that observe the whole machine, and one in its own pid namespace. */
let first: AgentDaemon;
let second: AgentDaemon;
let inside: AgentDaemon;
let outsidePort: number;
let insidePort: number;

function makeHome(): TestHome {
  const home = makeTestHome();
  homes.push(home);
  return home;
}

async function startServer(): Promise<number> {
  const child = spawn(process.execPath, [script, "server"], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return Number(line);
}

/** An agent that shares a new pid namespace with a server, which writes its port to a file. */
async function startInside(): Promise<AgentDaemon> {
  const { path } = makeHome();
  const portFile = join(path, "port");
  const startBoth = `"$0" ${script} server > ${portFile} & exec "$@"`;
  const unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const launcher = [...unshare, "sh", "-c", startBoth, process.execPath];
  const agent = await startAgent({ home: path, config, traffic: true, token: await colony.createJoinToken(), launcher });
  insidePort = await waitFor("the server inside", () => Number(readFileSync(portFile, "utf8").trim()) || undefined);
  return agent;
}

async function send(port: number): Promise<void> {
  const client = spawn(process.execPath, [script, "client", String(port)], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(client);
  const lines = createInterface({ input: client.stdout })[Symbol.asyncIterator]();
  await lines.next();
  for (let index = 0; index < requests; index++) {
    client.stdin.write(`${JSON.stringify({ path: "/counted" })}\n`);
    await lines.next();
  }
  client.kill();
}

/** `outside server: 30`, by what the colony stored. */
async function counted(): Promise<string[]> {
  const rows = await colony.sql(
    `SELECT server_port, role, sum(requests)::INT AS requests FROM red WHERE server_port IN (${outsidePort}, ${insidePort}) AND route = '/counted'
     GROUP BY ALL ORDER BY ALL`,
  );
  const place = (port: unknown): string => (Number(port) === outsidePort ? "outside" : "inside");
  return rows.map(({ server_port: port, role, requests: count }) => `${place(port)} ${String(role)}: ${String(count)}`).sort();
}

const trafficOf = async (agent: AgentDaemon) => ((await agent.status()) as unknown as AgentStatus).traffic;
const rowsOf = async (agent: AgentDaemon): Promise<number> => (await agent.status()).store.rowsBySignal["red"] ?? 0;

describe("agents that share a kernel", () => {
  beforeAll(async () => {
    if (reason !== undefined) return;
    const own = makeHome();
    colony = await startColony({ home: own.path, config: fastColonyConfig });
    outsidePort = await startServer();
    first = await startAgent({ home: own.path, config, traffic: true });
    second = await startAgent({ home: makeHome().path, config, traffic: true, token: await colony.createJoinToken() });
    inside = await startInside();
    for (const agent of [first, second, inside]) {
      await agent.waitUntilConnected(180_000);
      await waitFor("hooks to be attached", async () => (await trafficOf(agent))?.state === "on", { details: () => agent.lastLines() });
    }
  });

  beforeEach((context) => {
    context.skip(reason !== undefined, reason);
  });

  afterAll(async () => {
    for (const child of children) child.kill("SIGKILL");
    // unshare does not pass on SIGTERM; its child ends with it.
    await inside?.kill("SIGKILL");
    for (const agent of [first, second]) await agent?.stop();
    await colony?.stop();
    for (const home of homes) await home[Symbol.asyncDispose]();
  });

  it("counts a request once, although several agents recorded it", async () => {
    expect((await trafficOf(inside))?.scope).toBe("pid-namespace");
    await send(outsidePort);
    await send(insidePort);
    const wanted = ["inside client", "inside server", "outside client", "outside server"].map((what) => `${what}: ${requests}`);
    await expect.poll(counted).toEqual(wanted);
    for (const agent of [first, second, inside]) await expect.poll(() => rowsOf(agent)).toBeGreaterThan(0);
    // All agents were pulled, and the counts do not change.
    const { agents } = await colony.tool<AgentList>("coral_list_agents", {});
    expect(agents.filter(({ connected }) => connected)).toHaveLength(3);
    await send(outsidePort);
    const doubled = wanted.map((text) => (text.startsWith("outside") ? text.replace(/\d+$/, String(2 * requests)) : text));
    // Rows of a client that has exited arrive a window later than those of its server.
    await expect.poll(counted).toEqual(doubled);
  });

  it("counts only the inner agent's requests, for its own namespace, when the other agents are stopped", async () => {
    const before = await counted();
    for (const agent of [first, second]) await agent.stop();
    await waitFor("the others to be gone", async () => {
      const { agents } = await colony.tool<AgentList>("coral_list_agents", {});
      return agents.filter(({ connected }) => connected).length === 1;
    });
    await send(outsidePort);
    await send(insidePort);
    const wanted = before.map((text) => (text.startsWith("inside server") ? `inside server: ${2 * requests}` : text));
    await expect.poll(counted).toEqual(wanted);
  });
});
