import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { damages, saveDatabase } from "../support/damage-file.ts";
import { type ColonyDaemon, startAgent, startColony } from "../support/daemon.ts";
import { readLoadNotes, startLoadAgent } from "../support/start-load-agent.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";
import { agentPaths } from "../../src/config/index.ts";

const colonyConfig = "pull:\n  interval: 500ms\n";
const agentConfig = "host:\n  interval: 1s\nlisteners:\n  interval: 5s\n";

async function countOf(colony: ColonyDaemon, sql: string): Promise<number> {
  return Number((await colony.sql(sql))[0]?.["n"]);
}

/** Fills the agent's database of this home with a few thousand rows, all of them pulled. */
async function fill(colony: ColonyDaemon, home: string): Promise<number> {
  const agent = await startLoadAgent({ home, token: await colony.createJoinToken(), rowsPerAppend: 200, pauseMs: 5 });
  await waitFor("rows", () => readLoadNotes(home).acknowledged.length > 60);
  await agent.stop();
  const rest = await startLoadAgent({ home, run: 1, rowsPerAppend: 1, pauseMs: 3_600_000 });
  await waitFor("the last rows", () => readLoadNotes(home).acknowledged.some(({ run }) => run === 1));
  const lastSeq = Math.max(...readLoadNotes(home).acknowledged.filter(({ signal }) => signal === "listener").map((one) => one.lastSeq));
  await waitFor("all pulled", async () => (await countOf(colony, "SELECT max(seq) AS n FROM listener")) >= lastSeq);
  await rest.stop();
  return lastSeq;
}

describe("a damaged database", () => {
  it("of an agent is moved aside; the agent starts, says so, and the colony records the loss", async () => {
    await using colonyHome = makeTestHome();
    await using agentHome = makeTestHome();
    await using colony = await startColony({ home: colonyHome.path, config: colonyConfig });
    await fill(colony, agentHome.path);
    const { databaseFile } = agentPaths(agentHome.path);
    const saved = saveDatabase(databaseFile);
    const epochs = new Set<string>();
    for (const [name, damage] of Object.entries(damages)) {
      saved.restore();
      damage(databaseFile);
      await using agent = await startAgent({ home: agentHome.path, config: agentConfig });
      await agent.waitUntilConnected();
      const epoch = (await agent.status()).store.epoch;
      console.log(name, epoch, (await agent.status()).notes, readdirSync(dirname(databaseFile)));
      await waitFor(`rows after ${name}`, async () => (await countOf(colony, `SELECT count(*) AS n FROM host WHERE epoch = '${epoch}'`)) > 0, { details: () => colony.lastLines() + agent.lastLines(), timeoutMs: 8_000 }).catch((e) => console.log(e));
      epochs.add(epoch);
    }
    console.log(await colony.tool("coral_get_status"));
  });
});
