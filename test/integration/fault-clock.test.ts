import { describe, expect, it } from "vitest";
import { startAgent } from "../../src/agent/index.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { peerCredentials } from "../../src/bpf/index.ts";
import { agentPaths, loadAgentConfig, makePrivateDirectory } from "../../src/config/index.ts";
import { InProcessColony, ScriptedAgent } from "../support/in-process-colony.ts";
import { validPullReply } from "../support/pull-replies.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const hourMs = 3_600_000;

/** The real clock with an adjustable wall clock. */
class SettableClock implements Clock {
  #offsetMs = 0;

  wallMs = (): number => Date.now() + this.#offsetMs;
  monotonicMs = (): number => systemClock.monotonicMs();

  step(byMs: number): void {
    this.#offsetMs += byMs;
  }
}

interface Status {
  colony: { uptimeMs: number };
  agents: { total: number; healthy: number };
  hosts: { agentId: string; sampledAt: string | null }[];
}
interface Agents {
  agents: { agentId: string; health: string; lastContactAgoMs: number; connected: boolean }[];
}

const quick = (config: Parameters<NonNullable<Parameters<typeof InProcessColony.start>[0] & object>["configure"] & object>[0]) => ({
  ...config,
  pull: { ...config.pull, intervalMs: 50 },
  // Short compared to the clock step, long compared to a stall of the machine.
  health: { degradedAfterMs: 60_000, unhealthyAfterMs: 120_000 },
});

async function makeAgentDirectories(home: string): Promise<void> {
  const { dataDirectory, identityDirectory } = agentPaths(home);
  for (const directory of [dataDirectory, identityDirectory]) await makePrivateDirectory(directory);
}

/** The real agent of this machine, sampling five times a second. */
async function startRealAgent(colony: InProcessColony, home: string, clock: Clock) {
  const { config } = await loadAgentConfig({ home, env: {} });
  return startAgent({
    config: {
      ...config,
      listen: { ...config.listen, port: 0 },
      host: { ...config.host, intervalMs: 200 },
      colony: { ...config.colony, endpoint: colony.colony.endpoint },
    },
    paths: agentPaths(home),
    engine: colony.engine,
    version: "0.0.0-test",
    owner: undefined,
    peerCredentials,
    obtainToken: async () =>
      (await colony.colony.tokens.create({ kind: "join", name: "", permission: null, validForMs: hourMs, uses: 1 })).token,
    locateColony: () => Promise.resolve(undefined),
    capabilities: [],
    portSearch: 0,
    clock,
    log: silentLogger,
  });
}

async function lastSeq(colony: InProcessColony): Promise<number> {
  return Number((await colony.sql("SELECT max(seq) AS n FROM host"))[0]?.["n"] ?? 0);
}

async function expectWholeSequences(colony: InProcessColony): Promise<void> {
  const [totals] = await colony.sql("SELECT count(*) AS n, count(DISTINCT seq) AS seqs, min(seq) AS first, max(seq) AS last FROM host");
  const n = Number(totals?.["n"]);
  expect(totals).toEqual({ n, seqs: n, first: 1, last: n });
}

describe("a clock that is stepped back an hour", () => {
  it("changes neither health nor sequence numbers nor certificates, and roll-ups stay complete", async () => {
    const clock = new SettableClock();
    await using home = makeTestHome();
    await using agentHome = makeTestHome();
    await makeAgentDirectories(agentHome.path);
    const dataDirectories = [agentPaths(agentHome.path).dataDirectory];
    await using colony = await InProcessColony.start({ home: home.path, clock, dataDirectories, configure: quick });
    const identity = await colony.join("steady");
    const steady = await ScriptedAgent.connect(colony, { identity, epoch: "s", pull: (request) => validPullReply(request, "s") });
    const leaver = await ScriptedAgent.connect(colony, {
      identity: await colony.join("leaver"),
      epoch: "l",
      pull: (request) => validPullReply(request, "l"),
    });
    await using agent = await startRealAgent(colony, agentHome.path, clock);
    await waitFor("rows before the step", async () => (await lastSeq(colony)) > 5);
    await leaver.tunnel.close("gone before the step");
    const startedMs = clock.wallMs();

    clock.step(-hourMs);
    const seqAtStep = await lastSeq(colony);
    await waitFor("rows after the step", async () => (await lastSeq(colony)) > seqAtStep + 20);
    await expectWholeSequences(colony);
    const status = await colony.tool<Status>("coral_get_status");
    expect(status.colony.uptimeMs).toBeGreaterThan(0);
    expect(status.colony.uptimeMs).toBeLessThan(hourMs / 2);
    // The newest sample is the last one taken, not the one with the highest time.
    expect(Date.parse(status.hosts.find(({ agentId }) => agentId === agent.agentId)?.sampledAt ?? "")).toBeLessThan(startedMs - hourMs / 2);
    // Certificates from before the step are still valid for a new connection, and can be renewed.
    await steady.tunnel.close("connects again");
    const again = await ScriptedAgent.connect(colony, { identity, epoch: "s", pull: (request) => validPullReply(request, "s") });
    const newcomer = await ScriptedAgent.connect(colony, {
      identity: await colony.join("newcomer"),
      epoch: "n",
      pull: (request) => validPullReply(request, "n"),
    });
    await waitFor("pulls on the new connections", () => again.pulls > 5 && newcomer.pulls > 5);
    const { agents } = await colony.tool<Agents>("coral_list_agents");
    for (const entry of agents) expect(entry.lastContactAgoMs).toBeLessThan(hourMs / 2);
    const { events } = await colony.tool<{ events: { agentId: string }[] }>("coral_list_events", { kind: "agent-health-changed" });
    expect(events.filter(({ agentId }) => agentId !== "leaver")).toEqual([]);

    await Promise.all([again, newcomer].map((one) => one.tunnel.close("the colony restarts")));
    await agent[Symbol.asyncDispose]();
    await colony[Symbol.asyncDispose]();
    await expectRestart(home.path, clock);
  });
});

it("a certificate lifetime beyond the maximum timer delay does not make the agent reconnect in a loop", async () => {
  await using agentHome = makeTestHome();
  await makeAgentDirectories(agentHome.path);
  await using colony = await InProcessColony.start({
    dataDirectories: [agentPaths(agentHome.path).dataDirectory],
    configure: (config) => ({ ...quick(config), certificates: { agentTtlMs: 90 * 24 * hourMs } }),
  });
  await using agent = await startRealAgent(colony, agentHome.path, systemClock);
  await waitFor("rows", async () => (await lastSeq(colony)) > 10);
  expect(colony.logs.filter(({ message }) => message === `Agent ${agent.agentId} is connected`)).toHaveLength(1);
});

/** After a restart no agent counts as silent, and retention and roll-ups, which run at the start, keep every row. */
async function expectRestart(home: string, clock: Clock): Promise<void> {
  await using colony = await InProcessColony.start({ home, clock, configure: quick });
  const { agents } = await colony.tool<Agents>("coral_list_agents");
  expect(agents.filter(({ health }) => health === "unhealthy")).toEqual([]);
  await expectWholeSequences(colony);
  const [raw] = await colony.sql("SELECT count(*) AS n FROM host");
  for (const view of ["host_1m", "host_10m"]) {
    await waitFor(`${view} to be complete`, async () => {
      const [rolled] = await colony.sql(`SELECT sum(sample_count)::BIGINT AS n FROM ${view}`);
      return rolled?.["n"] === raw?.["n"];
    });
  }
}
