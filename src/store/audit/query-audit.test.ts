import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { openAgentStore } from "../agent/agent-store.ts";
import { openColonyStore } from "../colony/colony-store.ts";
import { type AuditEntry, audit, blankAuditEntry, linkAuditEntry } from "../signals/audit.ts";
import type { Signal } from "../signals/define-signal.ts";
import { type ChainLink, chainStart } from "../signals/hash-chain.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { openColonyAudit } from "./colony-audit.ts";
import { type AuditQuery, openCommands, queryAudit, queryAuditEntries } from "./query-audit.ts";

const everything: AuditQuery = { sinceUs: 0, limit: 100 };

async function openWorld() {
  const folder = temporaryFolder();
  const engine = await testEngine(folder.path);
  const clock = new TestClock();
  const shared = { signals: [audit] as unknown as Signal[], maxBytes: 1024 ** 3, clock, log: silentLogger };
  const agent = await openAgentStore(engine, { file: folder.file("a.duckdb"), ...shared });
  const store = await openColonyStore(engine, { file: folder.file("c.duckdb"), ...shared });
  const own = await openColonyAudit(store, { maxAgeMs: 1e12, maxRows: 1_000_000, clock });
  const said = (more: Partial<AuditEntry>): AuditEntry => {
    clock.pass(1_000);
    return { ...blankAuditEntry(clock.wallMs() * 1_000, clock.monotonicMs()), ...more };
  };
  let link: ChainLink = chainStart(agent.epoch);
  const atAgent = async (...entries: Partial<AuditEntry>[]): Promise<void> => {
    for (const entry of entries) {
      const row = linkAuditEntry(link, said(entry));
      await agent.append(audit, [row]);
      link = row;
    }
    const after = store.checkpoints("web-1", agent.epoch).afterSeq.get("audit") ?? 0;
    const slice = await agent.readAfter("audit", after, { maxBytes: 1e6, maxRows: 1_000 });
    await store.applyPulls([{ agentId: "web-1", epoch: agent.epoch, slices: [slice], losses: [] }]);
  };
  const exec = { kind: "exec", caller: "token:ann", through: "cli", target: "service api", command: "ps aux" };
  await own.append([said({ ...exec, phase: "asked", command_id: "c1" })]);
  await atAgent(
    { ...exec, phase: "begun", command_id: "c1", rule: "diagnostics", place: "container web, pid 42" },
    { ...exec, phase: "ended", command_id: "c1", reason: "exited", exit_code: 0, duration_ms: 12, stdout_bytes: 100 },
    { ...exec, phase: "denied", command_id: "c2", command: "rm -rf /", rule: "", reason: "no rule allows it", caller: "token:bob" },
    { kind: "anchor", phase: "noted", target: "colony" },
    { ...exec, phase: "begun", command_id: "c3", kind: "shell", command: "", target: "host" },
  );
  await own.append([
    said({ ...exec, phase: "ended", command_id: "c1", reason: "exited" }),
    said({ kind: "sql", phase: "ended", command_id: "c4", caller: "local:uid=0", through: "cli", command: "select 1" }),
    said({ ...exec, phase: "asked", command_id: "c5", command: "uptime" }),
  ]);
  const close = async (): Promise<void> => {
    await agent.close();
    await store.close();
    await engine.close();
    folder[Symbol.dispose]();
  };
  const decide = (id: string) =>
    own.append([said({ kind: "approval", phase: "decided", command_id: id, caller: "token:boss", reason: "approved" })]);
  return { store, clock, decide, [Symbol.asyncDispose]: close };
}

test("queryAudit() returns one record per command, from the agent if it has one, newest first", async () => {
  await using world = await openWorld();
  const records = await queryAudit(world.store, everything);
  expect(records.map(({ agentId, id, phase }) => [agentId, id, phase])).toEqual([
    [null, "c5", "asked"],
    [null, "c4", "ended"],
    ["web-1", "c3", "begun"],
    ["web-1", "c2", "denied"],
    ["web-1", "c1", "ended"],
  ]);
  expect(records.at(-1)).toMatchObject({
    caller: "token:ann",
    place: "container web, pid 42",
    rule: "diagnostics",
    exitCode: 0,
    reason: "exited",
    durationMs: 12,
    stdoutBytes: 100,
  });
});

test.each<[string, Partial<AuditQuery>, string[]]>([
  ["who asked", { caller: "BOB" }, ["c2"]],
  ["the command", { command: "ps" }, ["c1"]],
  ["the target", { target: "host" }, ["c3"]],
  ["the place", { target: "pid 42" }, ["c1"]],
  ["an agent that the target names", { target: "web", targetAgentIds: ["web-1"] }, ["c3", "c2", "c1"]],
  ["the agent", { agentIds: ["web-1"] }, ["c3", "c2", "c1"]],
  ["no agent", { agentIds: [] }, []],
  ["the kind", { kind: "sql" }, ["c4"]],
  ["what was denied", { outcome: "denied" }, ["c2"]],
  ["what has not ended", { outcome: "open" }, ["c5", "c3"]],
  ["quotes and percent signs as they are", { command: "%' OR '1'='1" }, []],
  ["a limit", { limit: 1 }, ["c5"]],
])("queryAudit() filters by %s", async (_what, query, expected) => {
  await using world = await openWorld();
  expect((await queryAudit(world.store, { ...everything, ...query })).map(({ id }) => id)).toEqual(expected);
});

test("queryAudit() returns decisions as separate records", async () => {
  await using world = await openWorld();
  await world.decide("c1");
  const records = await queryAudit(world.store, { ...everything, kind: "approval" });
  expect(records.map(({ id, caller, reason }) => [id, caller, reason])).toEqual([["c1", "token:boss", "approved"]]);
  expect((await queryAudit(world.store, everything)).filter(({ id }) => id === "c1").map(({ kind }) => kind)).toEqual(["approval", "exec"]);
});

test("queryAudit() excludes older entries", async () => {
  await using world = await openWorld();
  const records = await queryAudit(world.store, { ...everything, sinceUs: (world.clock.wallMs() - 1_500) * 1_000 });
  expect(records.map(({ id }) => id)).toEqual(["c5", "c4"]);
});

test("queryAuditEntries() returns every entry of a command with its position in its chain", async () => {
  await using world = await openWorld();
  const entries = await queryAuditEntries(world.store, "c1", 100);
  expect(entries.map(({ agentId, phase, entry }) => [agentId, phase, entry])).toEqual([
    [null, "asked", 1],
    [null, "ended", 2],
    ["web-1", "begun", 1],
    ["web-1", "ended", 2],
  ]);
  expect(entries[1]?.previousHash).toBe(entries[0]?.hash);
});

test("openCommands() returns commands without an end at the colony", async () => {
  await using world = await openWorld();
  expect((await openCommands(world.store, 10)).map(({ id }) => id)).toEqual(["c5"]);
});
