import { expect } from "vitest";
import type { ColonyDaemon } from "./daemon.ts";
import type { LoadNotes } from "./start-load-agent.ts";
import { waitFor } from "./wait-for.ts";

/** Columns that identify a row of the load agent. */
const nameColumns = { host_process: ["pid", "start_ticks"], host_cpu: ["busy_ratio", "user_ratio"] } as const;

/**
 * Waits until the colony has every acknowledged row, then checks that each row is stored exactly once under its acknowledged sequence number,
 * and that sequence numbers have neither gaps nor duplicates.
 */
export async function expectExactlyOnce(colony: ColonyDaemon, agentId: string, notes: LoadNotes): Promise<void> {
  expect(new Set(notes.acknowledged.map(({ epoch }) => epoch)).size).toBe(1);
  for (const signal of ["host_process", "host_cpu"] as const) {
    const [run, number] = nameColumns[signal];
    const acknowledged = notes.acknowledged.filter((one) => one.signal === signal);
    const lastSeq = Math.max(...acknowledged.map((one) => one.lastSeq));
    await waitFor(
      `all rows of ${signal}`,
      async () => {
        const [row] = await colony.sql(`SELECT max(seq) AS last FROM ${signal}`);
        return Number(row?.["last"]) >= lastSeq;
      },
      { timeoutMs: 120_000, details: () => colony.lastLines() },
    );
    const [totals] = await colony.sql(
      `SELECT count(*) AS n, count(DISTINCT seq) AS seqs, min(seq) AS first, max(seq) AS last, count(DISTINCT (${run}, ${number})) AS names,
         count(DISTINCT epoch) AS epochs, min(agent_id) AS agent, max(agent_id) AS agent2 FROM ${signal}`,
    );
    const n = Number(totals?.["n"]);
    expect(totals).toMatchObject({ seqs: n, first: 1, last: n, names: n, epochs: 1, agent: agentId, agent2: agentId });
    expect(overlaps(acknowledged)).toEqual([]);
    const stored = await storedNames(colony, signal, n);
    expect(acknowledged.flatMap(rowsOf).filter(({ seq, name }) => stored.get(seq) !== name)).toEqual([]);
  }
}

function rowsOf(one: LoadNotes["acknowledged"][number]): { seq: number; name: string }[] {
  const count = one.lastSeq - one.firstSeq + 1;
  return Array.from({ length: count }, (_, index) => ({ seq: one.firstSeq + index, name: `${one.run}-${one.firstNumber + index}` }));
}

/** Sequence numbers that were assigned twice. */
function overlaps(acknowledged: LoadNotes["acknowledged"]): unknown[] {
  const sorted = [...acknowledged].sort((a, b) => a.firstSeq - b.firstSeq);
  return sorted.filter((one, index) => index > 0 && one.firstSeq <= sorted[index - 1]!.lastSeq);
}

async function storedNames(colony: ColonyDaemon, signal: "host_process" | "host_cpu", rows: number): Promise<Map<number, string>> {
  const [run, number] = nameColumns[signal];
  const names = new Map<number, string>();
  for (let after = 0; after < rows; after += 10_000) {
    const page = await colony.sql(
      `SELECT seq, ${run}::BIGINT AS run, ${number}::BIGINT AS number FROM ${signal} WHERE seq > ${after} AND seq <= ${after + 10_000}`,
    );
    for (const row of page) names.set(Number(row["seq"]), `${row["run"]}-${row["number"]}`);
  }
  return names;
}
