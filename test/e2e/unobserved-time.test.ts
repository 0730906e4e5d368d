import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { startAgent, startColony } from "../support/daemon.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

interface Answer {
  completeness: { complete: boolean; notes: { kind: string; message: string }[] };
}

const downMs = 3_000;
const observedNothing = /observed nothing from \S+ to \S+ UTC \(\d+\w+\): its agent was (.*)$/;

it("query results note the time in which an agent did not run, if they are about that time", async () => {
  await using colonyHome = makeTestHome();
  await using agentHome = makeTestHome();
  await using colony = await startColony({ home: colonyHome.path, config: "pull:\n  interval: 500ms\n" });
  const notes = async (tool: string, since: string): Promise<string[]> => {
    const { completeness } = await colony.tool<Answer>(tool, { since });
    return completeness.notes.filter(({ kind }) => kind === "unobserved").map(({ message }) => message);
  };
  const reasons = async (): Promise<(string | undefined)[]> =>
    (await notes("coral_query_host", "10m")).map((message) => observedNothing.exec(message)?.[1]).filter((reason) => reason !== undefined);

  const token = await colony.createJoinToken(3);
  const config = "host:\n  interval: 1s\n";
  const first = await startAgent({ home: agentHome.path, token, config });
  await first.waitUntilConnected();
  await waitFor("a host sample", async () => (await colony.sql("SELECT count(*) AS n FROM host"))[0]?.["n"] !== 0);
  expect(await notes("coral_query_host", "10m")).toEqual([expect.stringContaining("joined at")]);
  await first.kill("SIGKILL");
  await sleep(downMs);

  const second = await startAgent({ home: agentHome.path });
  await second.waitUntilConnected();
  await waitFor("the gap of the killed agent", async () => (await reasons())[0] === "killed or crashed");
  for (const tool of ["coral_query_red", "coral_query_summary", "coral_get_topology", "coral_list_events"]) {
    expect((await notes(tool, "10m")).filter((message) => observedNothing.test(message))).toHaveLength(1);
  }
  await waitFor("time after the gap", async () => (await notes("coral_query_host", "2s")).length === 0);
  await second.stop();
  await sleep(downMs);

  await using third = await startAgent({ home: agentHome.path });
  await third.waitUntilConnected();
  const merged = await waitFor("the gap of the stopped agent", async () => {
    const found = (await notes("coral_query_host", "10m")).find((message) => message.includes("in 2 intervals"));
    return found;
  });
  expect(merged).toMatch(/observed nothing for \d+s in 2 intervals, the last from \S+ to \S+ UTC: its agent was stopped$/);
  const events = await colony.sql("SELECT message FROM events WHERE kind = 'agent-unobserved' ORDER BY time");
  expect(events.map(({ message }) => String(message).replace(/\d+s/, "Ns"))).toEqual([
    "The agent observed nothing for Ns: it was killed or crashed",
    "The agent observed nothing for Ns: it was stopped",
  ]);
});
