import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type ColonyDaemon, type DaemonProcess, startColony } from "../support/daemon.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type LoadNotes, loadAgentIdOf, readLoadNotes, startLoadAgent } from "../support/start-load-agent.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

const kills = 20;
const config = "pull:\n  interval: 500ms\n  timeout: 5s\nlog:\n  level: debug\n";
/** A log of 4 MiB brings a checkpoint: the kills hit commits, checkpoints, replays and starts. */
const agentMemoryBytes = 16 * 1024 * 1024;

/** Half of the kills come after signs of work, the others at any moment from the first one of the process on. */
async function untilKill(random: () => number, working: () => Promise<unknown>): Promise<void> {
  if (random() < 0.5) {
    await working();
    await sleep(random() * 400);
  } else await sleep(random() * 1_200);
}

const rowCounts = (notes: LoadNotes): number => notes.acknowledged.length;

describe("kill -9 under load", () => {
  it("20 times the agent and 20 times the colony: every acknowledged row is stored exactly once", { timeout: 170_000 }, async () => {
    await using colonyHome = makeTestHome();
    await using agentHome = makeTestHome();
    let colony = await startColony({ home: colonyHome.path, config });
    const { port } = colony;
    const token = await colony.createJoinToken(kills + 2);
    const running: { agent: DaemonProcess | undefined; colony: ColonyDaemon } = { agent: undefined, colony };
    try {
      const killAgents = async (): Promise<void> => {
        const random = seededRandom(11);
        for (let run = 1; run <= kills; run++) {
          const agent = await startLoadAgent({ home: agentHome.path, run, token, memoryBytes: agentMemoryBytes });
          running.agent = agent;
          const before = rowCounts(readLoadNotes(agentHome.path));
          await untilKill(random, () => waitFor("appends", () => rowCounts(readLoadNotes(agentHome.path)) > before));
          await agent.kill("SIGKILL");
        }
        running.agent = await startLoadAgent({ home: agentHome.path, run: kills + 1, token, memoryBytes: agentMemoryBytes });
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
      // The load goes on for a moment after the last kill, then ends in order.
      await waitFor("rows after the last kill", () => readLoadNotes(agentHome.path).acknowledged.some(({ run }) => run === kills + 1));
      await waitFor("pulls after the last kill", () => hasStored(colony));
      await running.agent!.stop();
      // Restarted without new rows, so that what it still holds is pulled.
      const rest = await startLoadAgent({ home: agentHome.path, run: kills + 2, token, pauseMs: 3_600_000, rowsPerAppend: 1 });
      running.agent = rest;
      const notes = await waitFor("the last two rows", () => {
        const read = readLoadNotes(agentHome.path);
        return read.acknowledged.filter(({ run }) => run === kills + 2).length === 2 && read;
      });
      await compare(colony, loadAgentIdOf(agentHome.path), notes);
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

async function compare(colony: ColonyDaemon, agentId: string, notes: LoadNotes): Promise<void> {
  expect(notes.refused).toEqual([]);
  expect(new Set(notes.acknowledged.map(({ epoch }) => epoch)).size).toBe(1);
  for (const [signal, run, number] of [
    ["listener", "pid", "start_ticks"],
    ["host_cpu", "busy_ratio", "user_ratio"],
  ] as const) {
    const acknowledged = notes.acknowledged.filter((one) => one.signal === signal);
    const lastSeq = Math.max(...acknowledged.map((one) => one.lastSeq));
    await waitFor(`all rows of ${signal}`, async () => {
      const [row] = await colony.sql(`SELECT max(seq) AS last FROM ${signal}`);
      return Number(row?.["last"]) >= lastSeq;
    });
    // No hole, no double, one epoch, one agent.
    const [totals] = await colony.sql(
      `SELECT count(*) AS n, count(DISTINCT seq) AS seqs, min(seq) AS first, max(seq) AS last, count(DISTINCT (${run}, ${number})) AS names,
         count(DISTINCT epoch) AS epochs, min(agent_id) AS agent, max(agent_id) AS agent2 FROM ${signal}`,
    );
    const n = Number(totals?.["n"]);
    expect(totals).toMatchObject({ seqs: n, first: 1, last: n, names: n, epochs: 1, agent: agentId, agent2: agentId });
    expect(overlaps(acknowledged)).toEqual([]);
    // Each acknowledged row has the sequence that was acknowledged.
    const stored = await storedNames(colony, signal, run, number, n);
    const wrong = acknowledged.flatMap((one) =>
      Array.from({ length: one.lastSeq - one.firstSeq + 1 }, (_, index) => ({
        seq: one.firstSeq + index,
        name: `${one.run}-${one.firstNumber + index}`,
      })).filter(({ seq, name }) => stored.get(seq) !== name),
    );
    expect(wrong).toEqual([]);
    expect(acknowledged.length).toBeGreaterThan(kills);
  }
}

function overlaps(acknowledged: LoadNotes["acknowledged"]): unknown[] {
  const sorted = [...acknowledged].sort((a, b) => a.firstSeq - b.firstSeq);
  return sorted.filter((one, index) => index > 0 && one.firstSeq <= sorted[index - 1]!.lastSeq);
}

async function storedNames(colony: ColonyDaemon, signal: string, run: string, number: string, rows: number): Promise<Map<number, string>> {
  const names = new Map<number, string>();
  for (let after = 0; after < rows; after += 10_000) {
    const page = await colony.sql(
      `SELECT seq, ${run}::BIGINT AS run, ${number}::BIGINT AS number FROM ${signal} WHERE seq > ${after} AND seq <= ${after + 10_000}`,
    );
    for (const row of page) names.set(Number(row["seq"]), `${row["run"]}-${row["number"]}`);
  }
  return names;
}

/** The colony rolls up at its start: each raw row is in each resolution once. */
async function compareRollups(colony: ColonyDaemon): Promise<void> {
  for (const view of ["host_cpu_1m", "host_cpu_10m"]) {
    const [raw] = await colony.sql("SELECT count(*) AS n FROM host_cpu");
    await waitFor(`${view} to be complete`, async () => {
      const [rolled] = await colony.sql(`SELECT sum(sample_count)::BIGINT AS n FROM ${view}`);
      return rolled?.["n"] === raw?.["n"];
    });
  }
}
