import { readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentPaths } from "../../src/config/index.ts";
import { type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { damages, saveDatabase } from "../support/damage-file.ts";
import { readLoadNotes, startLoadAgent } from "../support/start-load-agent.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const colonyConfig = "pull:\n  interval: 500ms\n";
const agentConfig = "host:\n  interval: 1s\n";

interface Answer {
  completeness: { complete: boolean; notes: { kind: string; message: string }[] };
}

async function countOf(colony: ColonyDaemon, sql: string): Promise<number> {
  return Number((await colony.sql(sql))[0]?.["n"]);
}

/** Writes thousands of rows to this home's agent database and waits until all are pulled. Returns the number of rows in `host_process`. */
async function fill(colony: ColonyDaemon, home: string): Promise<number> {
  const agent = await startLoadAgent({ home, token: await colony.createJoinToken(), rowsPerAppend: 200, pauseMs: 5 });
  await waitFor("rows", () => readLoadNotes(home).acknowledged.length > 60);
  await agent.stop();
  const rest = await startLoadAgent({ home, run: 1, rowsPerAppend: 1, pauseMs: 3_600_000 });
  await waitFor("the last rows", () => readLoadNotes(home).acknowledged.filter(({ run }) => run === 1).length === 2);
  const ends = readLoadNotes(home).acknowledged.filter(({ signal }) => signal === "host_process");
  const lastSeq = Math.max(...ends.map((one) => one.lastSeq));
  await waitFor("all pulled", async () => (await countOf(colony, "SELECT max(seq) AS n FROM host_process")) >= lastSeq);
  await rest.stop();
  return lastSeq;
}

function damagedFiles(databaseFile: string): string[] {
  return readdirSync(dirname(databaseFile)).filter((name) => name.startsWith(`${basename(databaseFile)}.damaged-`));
}

describe("a damaged database", () => {
  it("of an agent is moved aside; the agent starts and reports it, and the colony records the loss", async () => {
    await using colonyHome = makeTestHome();
    await using agentHome = makeTestHome();
    await using colony = await startColony({ home: colonyHome.path, config: colonyConfig });
    await fill(colony, agentHome.path);
    const { databaseFile } = agentPaths(agentHome.path);
    const saved = saveDatabase(databaseFile);
    const epochs = new Set(readLoadNotes(agentHome.path).acknowledged.map(({ epoch }) => epoch));
    for (const [name, damage] of Object.entries(damages)) {
      for (const file of damagedFiles(databaseFile)) rmSync(join(dirname(databaseFile), file));
      saved.restore();
      damage(databaseFile);
      await using agent = await startAgent({ home: agentHome.path, config: agentConfig });
      await agent.waitUntilConnected();
      const { store, notes } = await agent.status();
      expect(epochs, name).not.toContain(store.epoch);
      epochs.add(store.epoch);
      expect(notes.join(), name).toMatch(/The store was damaged \(.+\) and was replaced by an empty one; the damaged file is kept at /);
      expect(damagedFiles(databaseFile), name).not.toEqual([]);
      expect(agent.output, name).toContain("moved a damaged store aside");
      const rows = `SELECT count(*) AS n FROM host WHERE epoch = '${store.epoch}'`;
      await waitFor(`rows after ${name}`, async () => (await countOf(colony, rows)) > 0, { details: () => agent.lastLines() });
    }
    const { completeness } = await colony.tool<Answer>("coral_query_host", { since: "1h" });
    expect(completeness.complete).toBe(false);
    expect(completeness.notes.map(({ message }) => message).join()).toContain("epoch-changed");
    // Rows that were pulled before are unaffected.
    expect(await countOf(colony, "SELECT count(*) - count(DISTINCT (epoch, seq)) AS n FROM host_process")).toBe(0);
  });

  it("of a colony is moved aside; the colony starts and reports it, and pulls again all rows that agents still have", async () => {
    await using colonyHome = makeTestHome();
    await using agentHome = makeTestHome();
    const first = await startColony({ home: colonyHome.path, config: colonyConfig });
    const { port, paths } = first;
    const rows = await fill(first, agentHome.path);
    await first.stop();
    await using rest = await startLoadAgent({ home: agentHome.path, run: 2, rowsPerAppend: 1, pauseMs: 3_600_000 });
    const saved = saveDatabase(paths.databaseFile);
    for (const [name, damage] of Object.entries(damages)) {
      for (const file of damagedFiles(paths.databaseFile)) rmSync(join(dirname(paths.databaseFile), file));
      saved.restore();
      damage(paths.databaseFile);
      await using colony = await startColony({ home: colonyHome.path, port });
      expect(colony.output, name).toContain("moved a damaged store aside");
      expect(damagedFiles(paths.databaseFile), name).not.toEqual([]);
      const { events } = await colony.tool<{ events: { kind: string; severity: string }[] }>("coral_list_events", {});
      expect(events, name).toContainEqual(expect.objectContaining({ kind: "store-recovered", severity: "error" }));
      const { completeness } = await colony.tool<Answer>("coral_query_host", { since: "1h" });
      expect(completeness.notes.map(({ message }) => message).join(), name).toContain("colony-damaged");
      await waitFor(`rows again after ${name}`, async () => (await countOf(colony, "SELECT max(seq) AS n FROM host_process")) > rows, {
        details: () => colony.lastLines() + rest.lastLines(),
      });
      const [totals] = await colony.sql(
        "SELECT count(*) AS n, count(DISTINCT seq) AS seqs, min(seq) AS first, max(seq) AS last FROM host_process",
      );
      expect(totals, name).toEqual({ n: rows + 1, seqs: rows + 1, first: 1, last: rows + 1 });
      await colony.stop();
    }
    await rest.stop();
  });
});
