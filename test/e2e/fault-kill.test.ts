import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { expectExactlyOnce } from "../support/compare-load.ts";
import { type ColonyDaemon, type DaemonProcess, startColony } from "../support/daemon.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type LoadNotes, loadAgentIdOf, readLoadNotes, startLoadAgent } from "../support/start-load-agent.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const kills = 20;
const config = "pull:\n  interval: 500ms\n  timeout: 5s\nstore:\n  memory: 64MiB\n";
/** The agent checkpoints its WAL at 4 MiB, the colony at 16 MiB, so that kills hit commits, checkpoints, replays and starts. */
const agentMemoryBytes = 16 * 1024 * 1024;

/** Half of the kills come after the process did some work, the others at any moment after its start. */
async function untilKill(random: () => number, working: () => Promise<unknown>): Promise<void> {
  if (random() < 0.5) {
    await working();
    await sleep(random() * 400);
  } else await sleep(random() * 1_200);
}

const rowCounts = (notes: LoadNotes): number => notes.acknowledged.length;

describe("kill -9 under load", () => {
  it("20 times each of agent and colony: every acknowledged row is stored exactly once", async () => {
    await using colonyHome = makeTestHome();
    await using agentHome = makeTestHome();
    let colony = await startColony({ home: colonyHome.path, config });
    const { port } = colony;
    const token = await colony.createJoinToken(kills + 2);
    const load = { home: agentHome.path, token, rowsPerAppend: 40, memoryBytes: agentMemoryBytes };
    const running: { agent: DaemonProcess | undefined; colony: ColonyDaemon } = { agent: undefined, colony };
    try {
      const killAgents = async (): Promise<void> => {
        const random = seededRandom(11);
        for (let run = 1; run <= kills; run++) {
          const agent = await startLoadAgent({ ...load, run });
          running.agent = agent;
          const before = rowCounts(readLoadNotes(agentHome.path));
          await untilKill(random, () => waitFor("appends", () => rowCounts(readLoadNotes(agentHome.path)) > before));
          await agent.kill("SIGKILL");
        }
        running.agent = await startLoadAgent({ ...load, run: kills + 1 });
      };
      const killColonies = async (): Promise<void> => {
        const random = seededRandom(22);
        for (let round = 0; round < kills; round++) {
          await untilKill(random, () => waitFor("pulled rows", async () => hasStored(running.colony)));
          await running.colony.kill("SIGKILL");
          running.colony = await startColony({ home: colonyHome.path, port, waitUntilReady: false });
        }
      };
      await Promise.all([killAgents(), killColonies()]);
      colony = running.colony;
      await colony.waitUntilReady();
      // The load continues briefly after the last kill, then stops cleanly.
      await waitFor("rows after the last kill", () => {
        const { acknowledged } = readLoadNotes(agentHome.path);
        return acknowledged.length > kills * 10 && acknowledged.some(({ run }) => run === kills + 1);
      });
      await waitFor("pulls after the last kill", () => hasStored(colony));
      await running.agent!.stop();
      // Restarted without new rows, so that the remaining ones are pulled.
      const rest = await startLoadAgent({ home: agentHome.path, run: kills + 2, token, pauseMs: 3_600_000, rowsPerAppend: 1 });
      running.agent = rest;
      const notes = await waitFor("the last two rows", () => {
        const read = readLoadNotes(agentHome.path);
        return read.acknowledged.filter(({ run }) => run === kills + 2).length === 2 && read;
      });
      expect(notes.refused).toEqual([]);
      await expectExactlyOnce(colony, loadAgentIdOf(agentHome.path), notes);
      await rest.stop();
      await colony.stop();
      running.colony = await startColony({ home: colonyHome.path, port });
      await compareRollups(running.colony);
    } finally {
      await running.agent?.kill("SIGKILL");
      await running.colony.kill("SIGKILL");
    }
  });
});

async function hasStored(colony: ColonyDaemon): Promise<boolean> {
  return Number(/^coral_rows_stored(?:_total)? (\d+)/m.exec(await colony.metrics())?.[1] ?? 0) > 0;
}

/** The colony rolls up at its start: each resolution contains each raw row once. */
async function compareRollups(colony: ColonyDaemon): Promise<void> {
  for (const view of ["host_cpu_1m", "host_cpu_10m"]) {
    const [raw] = await colony.sql("SELECT count(*) AS n FROM host_cpu");
    await waitFor(`${view} to be complete`, async () => {
      const [rolled] = await colony.sql(`SELECT sum(sample_count)::BIGINT AS n FROM ${view}`);
      return rolled?.["n"] === raw?.["n"];
    });
  }
}
