import { expect, it } from "vitest";
import { expectExactlyOnce } from "../support/compare-load.ts";
import { type ColonyDaemon, startColony } from "../support/daemon.ts";
import { loadAgentIdOf, readLoadNotes, startLoadAgent } from "../support/start-load-agent.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const degradedAfterMs = 8_000;
const config = `pull:\n  interval: 500ms\n  timeout: 5s\nhealth:\n  degraded_after: ${degradedAfterMs}ms\n  unhealthy_after: 12s\n`;

interface AgentFacts {
  agentId: string;
  health: string;
  healthReason: string;
  connected: boolean;
  link: { isSlow: boolean; bytesPerSecond: number } | null;
}

async function agentOf(colony: ColonyDaemon): Promise<AgentFacts> {
  const { agents } = await colony.tool<{ agents: AgentFacts[] }>("coral_list_agents");
  return agents[0]!;
}

/** Oldest first: `degraded`, `unhealthy`, … */
async function healthChanges(colony: ColonyDaemon): Promise<string[]> {
  const { events } = await colony.tool<{ events: { details: { after: string } }[] }>("coral_list_events", {
    kind: "agent-health-changed",
    limit: 1_000,
  });
  return events.map(({ details }) => details.after).reverse();
}

it("a partition shows as unhealthy; afterwards the agent reconnects and every row arrives once", async () => {
  await using colonyHome = makeTestHome();
  await using agentHome = makeTestHome();
  await using colony = await startColony({ home: colonyHome.path, config });
  await using proxy = await TcpProxy.start(colony.port);
  const token = await colony.createJoinToken();
  await using agent = await startLoadAgent({ home: agentHome.path, token, endpoint: proxy.endpoint, rowsPerAppend: 5, pauseMs: 100 });
  await waitFor("rows before the cut", async () => Number((await colony.sql("SELECT count(*) AS n FROM host_process"))[0]?.["n"]) > 50);

  // Health changes before the partition do not count.
  const before = (await healthChanges(colony)).length;
  proxy.cut();
  await waitFor(
    "the agent to be degraded",
    async () => (await healthChanges(colony)).length > before && (await agentOf(colony)).health !== "healthy",
  );
  await waitFor("the agent to be unhealthy", async () => (await agentOf(colony)).health === "unhealthy");
  await waitFor("the colony to close the tunnel", async () => !(await agentOf(colony)).connected);
  const status = await colony.tool<{ warnings: { kind: string }[]; completeness: { complete: boolean } }>("coral_get_status");
  expect(status.warnings.map(({ kind }) => kind)).toContain("agent-silent");
  expect(status.completeness.complete).toBe(false);
  await agent.waitForOutput(/no response for \d+ s/);
  await waitFor("two failed attempts to reconnect", () => proxy.attempts >= 2, { details: () => agent.lastLines() });
  expect((await agentOf(colony)).health).toBe("unhealthy");
  proxy.heal();
  const healedAtMs = performance.now();

  await waitFor("the agent to be healthy again", async () => (await agentOf(colony)).health === "healthy");
  const changes = await waitFor("the event of it", async () => {
    const seen = (await healthChanges(colony)).slice(before);
    return seen.at(-1) === "healthy" && seen;
  });
  expect(changes.join(" ")).toMatch(/^degraded unhealthy (?:degraded )?healthy$/);
  const seen = Number((await colony.sql("SELECT max(seq) AS last FROM host_process"))[0]?.["last"]);
  await waitFor("new rows", async () => Number((await colony.sql("SELECT max(seq) AS last FROM host_process"))[0]?.["last"]) > seen);
  // A second loss of contact would show after this time.
  await waitFor("the agent to stay healthy", () => performance.now() - healedAtMs > degradedAfterMs + 2_000);
  expect((await healthChanges(colony)).slice(before)).toEqual(changes);
  await agent.stop();
  const notes = readLoadNotes(agentHome.path);
  expect(notes.refused).toEqual([]);
  // Without the last appends, which cannot be pulled from a stopped agent.
  await using rest = await startLoadAgent({ home: agentHome.path, run: 1, rowsPerAppend: 1, pauseMs: 3_600_000, endpoint: proxy.endpoint });
  await expectExactlyOnce(colony, loadAgentIdOf(agentHome.path), notes);
  const { completeness } = await colony.tool<{ completeness: { complete: boolean } }>("coral_get_status");
  expect(completeness).toMatchObject({ complete: true });
  await rest.stop();
});

it("a link of 64 kbit/s shows as slow, with figures, and is fully used", async () => {
  await using colonyHome = makeTestHome();
  await using agentHome = makeTestHome();
  await using colony = await startColony({ home: colonyHome.path, config });
  await using proxy = await TcpProxy.start(colony.port);
  const token = await colony.createJoinToken();
  await using agent = await startLoadAgent({ home: agentHome.path, token, endpoint: proxy.endpoint, rowsPerAppend: 20, pauseMs: 100 });
  const last = async (): Promise<number> => Number((await colony.sql("SELECT max(seq) AS last FROM host_process"))[0]?.["last"]);
  await waitFor("rows", async () => (await last()) > 50, { details: () => agent.lastLines() });
  proxy.limit(8_000);
  const warning = await waitFor("a slow link in status", async () => {
    const { warnings, hosts } = await colony.tool<{ warnings: { kind: string; message: string }[]; hosts: { isSlow: boolean }[] }>(
      "coral_get_status",
    );
    return hosts[0]?.isSlow === true && warnings.find(({ kind }) => kind === "agent-slow")?.message;
  });
  const [, kilobits] = / took .* \((\d+) kbit\/s,/.exec(warning) ?? [];
  expect(Number(kilobits)).toBeLessThan(128);
  // The backlog does not fit into one pull: the colony requests fewer rows at once, and continues.
  const seen = await last();
  await waitFor("further rows", async () => (await last()) > seen, { details: () => colony.lastLines() });
  proxy.limit(Number.POSITIVE_INFINITY);
  await waitFor("the link to recover", async () => (await agentOf(colony)).link?.isSlow === false);
});
