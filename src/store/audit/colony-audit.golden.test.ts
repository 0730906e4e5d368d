/** Golden rows of the colony's own chain, with the details of pruned entries that `verifyOwnChain()` and `verifyCopies()` rely on. */

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { type ColonyStore, openColonyStore } from "../colony/colony-store.ts";
import { batchFromRows } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import { type GoldenRow, insertGoldenRows, storedRows } from "../golden-rows.fixture.ts";
import { type AuditRow, audit, blankAuditEntry, linkAuditEntry } from "../signals/audit.ts";
import type { Signal } from "../signals/define-signal.ts";
import { chainStart } from "../signals/hash-chain.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { openColonyAudit } from "./colony-audit.ts";
import { verifyCopies, verifyOwnChain } from "./verify-audit.ts";

const chainId = "5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11";
const agentEpoch = "6d1f8c3a-0d55-4d0c-8a52-1f3f8e9c4b22";
const dayMs = 86_400_000;

/** The rest of the chain after entries 1 and 2, and the agent's first entry, were pruned. */
const golden = readFileSync(new URL("./colony-audit.golden.jsonl", import.meta.url), "utf8");

async function openWorld() {
  const folder = temporaryFolder();
  const engine = await testEngine(folder.path);
  const clock = new TestClock();
  const signals = [audit] as unknown as Signal[];
  const store = await openColonyStore(engine, { file: folder.file("c.duckdb"), signals, maxBytes: 1024 ** 3, clock, log: silentLogger });
  const options = { maxAgeMs: 30 * dayMs, maxRows: 1_000_000, clock };
  return {
    clock,
    store,
    openAudit: () => openColonyAudit(store, options),
    setChain: (entry: number, hash: string) =>
      store.write((transaction) => transaction.run("UPDATE audit.chain SET chain_id = ?, entry = ?, hash = ?", [chainId, entry, hash])),
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await engine.close();
      folder[Symbol.dispose]();
    },
  };
}

const agentRow = (clock: TestClock): AuditRow =>
  linkAuditEntry(chainStart(agentEpoch), { ...blankAuditEntry(clock.wallMs() * 1_000, clock.monotonicMs()), kind: "exec", phase: "begun" });

async function pull(store: ColonyStore, row: AuditRow, epoch = agentEpoch): Promise<void> {
  const batch = encodeBatch(batchFromRows(audit, [row]), 1);
  const slice = { signal: audit.name, oldestSeq: 1, nextSeq: 2, batch };
  await store.applyPulls([{ agentId: "agent-1", epoch, slices: [slice], losses: [] }]);
}

async function storedLines(store: ColonyStore): Promise<string> {
  return (await storedRows(store, "audit.entries")).map((row) => `${JSON.stringify(row)}\n`).join("");
}

describe("the colony's own chain", () => {
  it("is stored as golden rows", async () => {
    await using world = await openWorld();
    await world.openAudit();
    await world.setChain(0, chainStart(chainId).hash);
    const own = await world.openAudit();
    const note = (command: string) => ({
      ...blankAuditEntry(world.clock.wallMs() * 1_000, world.clock.monotonicMs()),
      kind: "token",
      phase: "noted",
      caller: "local:uid=1000",
      command,
    });
    await own.append([note("first"), note("second")]);
    await pull(world.store, agentRow(world.clock));
    world.clock.pass(32 * dayMs);
    await own.append([note("third")]);
    expect(await own.prune()).toEqual({ entries: 2, copies: 1 });
    expect(await storedLines(world.store)).toBe(golden);
  });

  it("verifies golden rows, including what was pruned before them", async () => {
    await using world = await openWorld();
    await world.openAudit();
    await pull(world.store, agentRow(world.clock));
    const rows = golden
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as GoldenRow);
    await world.store.write((transaction) => transaction.run('DELETE FROM raw."audit"'));
    await insertGoldenRows(world.store, "audit.entries", rows);
    const last = rows.at(-1);
    await world.setChain(Number(last?.["entry"]), String(last?.["hash"]));
    const own = await world.openAudit();
    expect(await verifyOwnChain(world.store, own)).toMatchObject({ entries: 3, firstEntry: 3, head: { entry: 5 }, problems: [] });
    expect((await verifyCopies(world.store)).map(({ agentId, report }) => ({ agentId, problems: report.problems }))).toEqual([
      { agentId: "agent-1", problems: [] },
    ]);
  });

  it("reads where an agent's chain ended from the first entry of its next chain", async () => {
    await using world = await openWorld();
    await world.openAudit();
    const before = { chainId: agentEpoch, entry: 7, hash: "ab".repeat(32) };
    const nextEpoch = "7e2a9d4b-1e66-4e1d-9b63-2a4a9fad5c33";
    const fields = { kind: "chain", phase: "noted", target: "chain", reason: "begun-anew", details: JSON.stringify({ before }) };
    const row = linkAuditEntry(chainStart(nextEpoch), { ...blankAuditEntry(1_767_225_600_000_000, 1), ...fields });
    await pull(world.store, agentRow(world.clock));
    await pull(world.store, row, nextEpoch);
    const chains = await verifyCopies(world.store, "agent-1");
    expect(chains.map(({ chainId: id, report }) => [id, report.problems.map(({ kind, entry }) => `${kind} ${entry}`)])).toEqual([
      [agentEpoch, ["cut 2"]],
      [nextEpoch, []],
    ]);
  });
});
