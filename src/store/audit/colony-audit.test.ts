import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { openAgentStore } from "../agent/agent-store.ts";
import { type ColonyStore, openColonyStore } from "../colony/colony-store.ts";
import { batchFromRows } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import { type AuditEntry, audit, blankAuditEntry, linkAuditEntry } from "../signals/audit.ts";
import type { Signal } from "../signals/define-signal.ts";
import { type ChainLink, chainStart } from "../signals/hash-chain.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { openColonyAudit } from "./colony-audit.ts";
import { copiedLinks, verifyCopies, verifyOwnChain } from "./verify-audit.ts";

const signals = [audit] as unknown as Signal[];
const dayMs = 86_400_000;
const limits = { maxBytes: 1024 ** 2, maxRows: 10_000 };

async function openWorld(maxRows = 1_000_000) {
  const folder = temporaryFolder();
  const engine = await testEngine(folder.path);
  const clock = new TestClock();
  const shared = { signals, maxBytes: 1024 ** 3, clock, log: silentLogger };
  const agent = await openAgentStore(engine, { file: folder.file("a.duckdb"), ...shared });
  const store = await openColonyStore(engine, { file: folder.file("c.duckdb"), ...shared });
  const own = await openColonyAudit(store, { maxAgeMs: 30 * dayMs, maxRows, clock });
  let link: ChainLink = chainStart(agent.epoch);
  const said = (command: string): AuditEntry => ({
    ...blankAuditEntry(clock.wallMs() * 1_000, clock.monotonicMs()),
    kind: "exec",
    phase: "begun",
    command,
  });
  return {
    clock,
    store,
    own,
    epoch: agent.epoch,
    said,
    write: async (...commands: string[]) => {
      for (const command of commands) {
        const row = linkAuditEntry(link, said(command));
        await agent.append(audit, [row]);
        link = row;
      }
    },
    pull: async () => {
      const after = store.checkpoints("agent-1", agent.epoch).afterSeq.get("audit") ?? 0;
      const slice = await agent.readAfter("audit", after, limits);
      await store.applyPulls([{ agentId: "agent-1", epoch: agent.epoch, slices: [slice], losses: [] }]);
    },
    agent,
    [Symbol.asyncDispose]: async () => {
      await agent.close();
      await store.close();
      await engine.close();
      folder[Symbol.dispose]();
    },
  };
}

const kinds = ({ problems }: { problems: { kind: string; entry: number }[] }): string[] =>
  problems.map(({ kind, entry }) => `${kind} ${entry}`);

const tamper = (store: ColonyStore, sql: string): Promise<unknown> => store.write((transaction) => transaction.run(sql));

test("the colony's own chain verifies, also with concurrent writers, and continues after a restart", async () => {
  await using world = await openWorld();
  await Promise.all(Array.from({ length: 60 }, (_, index) => world.own.append([world.said(`a${index}`), world.said(`b${index}`)])));
  expect(world.own.head.entry).toBe(120);
  const again = await openColonyAudit(world.store, { maxAgeMs: dayMs, maxRows: 1_000, clock: world.clock });
  expect(again.chainId).toBe(world.own.chainId);
  await again.append([world.said("later")]);
  const report = await verifyOwnChain(world.store, again);
  expect(report).toMatchObject({ entries: 121, firstEntry: 1, problems: [] });
  expect(report.head).toEqual(again.head);
});

test.each([
  ["changed", "UPDATE audit.entries SET command = 'x' WHERE seq = 4", ["changed 4"]],
  ["removed", "DELETE FROM audit.entries WHERE seq = 4", ["missing 4"]],
  ["cut", "DELETE FROM audit.entries WHERE seq > 8", ["cut 9"]],
  ["removed at the beginning", "DELETE FROM audit.entries WHERE seq < 3", ["prefix-removed 1"]],
  [
    "added",
    "INSERT INTO audit.entries SELECT * REPLACE (11 AS seq, 11 AS entry) FROM audit.entries WHERE seq = 10",
    ["changed 11", "unlinked 11", "added 11"],
  ],
  ["repeated", "INSERT INTO audit.entries SELECT * FROM audit.entries WHERE seq = 5", ["repeated 5"]],
])("verifyOwnChain() detects that an entry was %s", async (_what, sql, expected) => {
  await using world = await openWorld();
  await world.own.append(Array.from({ length: 10 }, (_, index) => world.said(`c${index}`)));
  await tamper(world.store, sql);
  expect(kinds(await verifyOwnChain(world.store, world.own)).toSorted()).toEqual(expected.toSorted());
});

test("verifyCopies() checks pulled entries of an agent's chain", async () => {
  await using world = await openWorld();
  await world.write("a", "b", "c");
  await world.pull();
  await world.write("d", "e");
  await world.pull();
  const [chain] = await verifyCopies(world.store);
  expect(chain).toMatchObject({ agentId: "agent-1", chainId: world.epoch, isCurrent: true, report: { entries: 5, problems: [] } });
  expect(await copiedLinks(world.store, world.epoch, [5, 7])).toEqual([{ entry: 5, hash: chain?.report.head.hash }]);
  await tamper(world.store, "UPDATE raw.audit SET caller = 'somebody else' WHERE seq = 2");
  await tamper(world.store, "DELETE FROM raw.audit WHERE seq = 5");
  const [touched] = await verifyCopies(world.store, "agent-1");
  expect(kinds(touched!.report)).toEqual(["changed 2", "cut 5"]);
  expect(await verifyCopies(world.store, "agent-2")).toEqual([]);
});

test("verifyCopies() detects that an agent's chain was rewritten between two pulls, and that entries were removed before a pull", async () => {
  await using world = await openWorld();
  await world.write("a", "b", "c");
  await world.pull();
  const rows = await world.agent.query("SELECT * FROM audit ORDER BY seq");
  let last = chainStart(world.epoch);
  for (const { time, prev_hash: _p, hash: _h, seq: _s, ...row } of rows) {
    const linked = linkAuditEntry(last, { ...row, at: Number(time), command: "true" } as never);
    await world.agent.query("UPDATE audit SET command = 'true', prev_hash = ?, hash = ? WHERE seq = ?", [
      linked.prev_hash,
      linked.hash,
      linked.entry,
    ]);
    last = { entry: linked.entry, hash: linked.hash };
  }
  const forged = linkAuditEntry(last, world.said("d"));
  await world.agent.append(audit, [forged]);
  await world.agent.append(audit, [linkAuditEntry(forged, world.said("e"))]);
  await world.agent.append(audit, [linkAuditEntry(linkAuditEntry(forged, world.said("e")), world.said("f"))]);
  await world.agent.query("DELETE FROM audit WHERE seq = 5");
  await world.pull();
  await world.pull();
  const [chain] = await verifyCopies(world.store);
  expect(kinds(chain!.report)).toEqual(["unlinked 4", "missing 5"]);
  expect(chain?.report.entries).toBe(5);
});

test("prune() records what it removes, so that the rest still verifies", async () => {
  await using world = await openWorld();
  await world.write("a", "b", "c");
  await world.pull();
  await world.own.append([world.said("x"), world.said("y")]);
  world.clock.pass(20 * dayMs);
  await world.write("d", "e");
  await world.pull();
  await world.own.append([world.said("z")]);
  expect(await world.own.prune()).toEqual({ entries: 0, copies: 0 });
  world.clock.pass(12 * dayMs);
  await world.store.prune();
  expect(await world.own.prune()).toEqual({ entries: 2, copies: 3 });
  expect(await verifyOwnChain(world.store, world.own)).toMatchObject({ firstEntry: 3, problems: [], entries: 3 });
  const [chain] = await verifyCopies(world.store);
  expect(chain?.report).toMatchObject({ firstEntry: 4, entries: 2, problems: [] });
  await tamper(world.store, "DELETE FROM raw.audit WHERE seq = 4");
  await tamper(world.store, "DELETE FROM audit.entries WHERE seq = 3");
  expect(kinds((await verifyCopies(world.store))[0]!.report)).toEqual(["prefix-removed 1"]);
  expect(kinds(await verifyOwnChain(world.store, world.own))).toEqual(["prefix-removed 1"]);
});

test("prune() limits the number of rows, also when all entries of an agent are removed", async () => {
  await using world = await openWorld(20);
  await world.own.append(Array.from({ length: 50 }, (_, index) => world.said(`c${index}`)));
  for (let round = 0; round < 50; round++) {
    await world.write(`r${round}`);
    await world.pull();
  }
  expect((await world.own.prune()).copies).toBe(30);
  const report = await verifyOwnChain(world.store, world.own);
  expect(report.entries).toBeLessThanOrEqual(22);
  expect(report.problems).toEqual([]);
  expect((await verifyCopies(world.store))[0]?.report).toMatchObject({ entries: 20, firstEntry: 31, problems: [] });
  world.clock.pass(40 * dayMs);
  await world.own.prune();
  expect((await verifyCopies(world.store))[0]?.report).toMatchObject({ entries: 0, problems: [] });
});

test("prune() removes rows of the agent that has too many, not of others", async () => {
  await using world = await openWorld(100);
  await world.write("a", "b", "c");
  await world.pull();
  let last: ChainLink = chainStart("flood");
  const rows = Array.from({ length: 400 }, (_, index) => {
    const row = linkAuditEntry(last, world.said(`f${index}`));
    last = row;
    return row;
  });
  const batch = encodeBatch(batchFromRows(audit, rows), 1, rows.length);
  const slice = { signal: "audit", oldestSeq: 1, nextSeq: 401, batch };
  await world.store.applyPulls([{ agentId: "loud", epoch: "flood", slices: [slice], losses: [] }]);
  expect((await world.own.prune()).copies).toBe(303);
  const chains = await verifyCopies(world.store);
  expect(chains.map(({ agentId, report }) => [agentId, report.entries, report.problems])).toEqual([
    ["agent-1", 3, []],
    ["loud", 97, []],
  ]);
});

test("keeps the epoch of a removed agent while its audit is kept", async () => {
  await using world = await openWorld();
  await world.write("a");
  await world.pull();
  await world.store.applyPulls([{ agentId: "agent-1", epoch: "another", slices: [], losses: [] }]);
  world.clock.pass(70 * dayMs);
  await world.store.prune();
  expect((await verifyCopies(world.store)).map(({ chainId }) => chainId)).toContain(world.epoch);
});
