import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { openFiles } from "../../base/open-files.fixture.ts";
import { verifyOwnChain } from "../../store/audit/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import type { ColonyBackend } from "../../tools/index.ts";
import { brokenEnd } from "../../transport/index.ts";
import { openAuditWorld } from "./audit.fixture.ts";
import { AuditRecorder } from "./audit-recorder.ts";
import type { RoutedCommand } from "./routed-command.ts";
import { withAudit } from "./with-audit.ts";

const command: RoutedCommand = {
  commandId: "c1",
  kind: "exec",
  caller: { name: "token:ann", from: "10.0.0.7:50123", through: "llm", questionId: "q-7" },
  target: "service=api",
  command: "mysql -phunter22 -e 'select 1'",
  agentIds: ["web-1", "web-2"],
};
const end = { ...brokenEnd("failed", "", ""), reason: "exited", exitCode: 3, stdoutBytes: 5n, rule: "diagnostics" };

test("AuditRecorder records a command before it is routed, and its outcome", async () => {
  await using world = await openAuditWorld();
  await world.recorder.requested(command);
  await world.recorder.ended(command, [end, brokenEnd("lost", "unavailable", "gone")], 1_234.6);
  await world.recorder.refused({ ...command, commandId: "c2" }, "no agent can");
  const rows = await world.entries();
  expect(rows.map((row) => [row["command_id"], row["phase"], row["reason"]])).toEqual([
    ["c1", "asked", ""],
    ["c1", "ended", "exited, lost"],
    ["c2", "denied", "no agent can"],
  ]);
  expect(rows[0]).toMatchObject({
    kind: "exec",
    caller: "token:ann",
    caller_from: "10.0.0.7:50123",
    through: "llm",
    question_id: "q-7",
    target: "service=api",
    details: '{"agents":2,"agentIds":["web-1","web-2"]}',
  });
  expect(rows[1]).toMatchObject({ stdout_bytes: 5, duration_ms: 1_235, exit_code: null });
  expect(JSON.parse(String(rows[1]?.["details"]))).toEqual({
    ends: [
      { agentId: "web-1", reason: "exited", exitCode: 3 },
      { agentId: "web-2", reason: "lost" },
    ],
  });
  expect(JSON.stringify(rows)).not.toContain("hunter22");
  expect((await verifyOwnChain(world.store, world.chain)).problems).toEqual([]);
});

test("AuditRecorder bounds the size of entries", async () => {
  await using world = await openAuditWorld();
  const long = "\u0000x\ud800".repeat(200_000);
  await world.recorder.requested({
    ...command,
    target: long,
    command: long,
    agentIds: Array.from({ length: 5_000 }, (_, index) => `a${index}-${"x".repeat(100)}`),
  });
  await world.recorder.note({ kind: "sql", phase: "ended", command: `select '${long}'`, isSql: true, reason: long });
  for (const row of await world.entries()) expect(JSON.stringify(row).length).toBeLessThan(30_000);
  expect((await verifyOwnChain(world.store, world.chain)).problems).toEqual([]);
});

test("AuditRecorder ends commands left open by a killed colony as lost, once", async () => {
  await using world = await openAuditWorld();
  await world.recorder.requested(command);
  await world.recorder.requested({ ...command, commandId: "c2" });
  await world.recorder.ended({ ...command, commandId: "c2" }, [end], 1);
  await world.reopen();
  await world.reopen();
  const lost = (await world.entries()).filter((row) => row["reason"] === "lost");
  expect(lost.map((row) => [row["command_id"], row["phase"], row["caller"]])).toEqual([["c1", "ended", "token:ann"]]);
});

test("AuditRecorder fails when it cannot write", async () => {
  await using world = await openAuditWorld();
  await world.recorder.close();
  await expect(world.recorder.requested(command)).rejects.toThrow("Cannot write the audit, so the action was not performed");
});

const context = { signal: new AbortController().signal, caller: "local:uid=1000", from: "socket pid=4", through: "cli" as const };

function backendOf(more: Partial<ColonyBackend>): ColonyBackend {
  return more as ColonyBackend;
}

test("withAudit() records SQL with its outcome, redacted, and returns results even when the audit cannot be written", async () => {
  await using world = await openAuditWorld();
  const sql = async ({ sql: text }: { sql: string }) => {
    if (text.includes("broken")) throw new CoralError({ code: "invalid", message: "no" });
    return { rows: [[1], [2]] } as never;
  };
  const backend = withAudit(backendOf({ sql }), { recorder: world.recorder, log: silentLogger });
  const ask = (text: string) => backend.sql({ sql: text, maxRows: 1, maxBytes: 1, timeoutMs: 1 }, context);
  await ask("select * from host where password = 'hunter22'");
  await expect(ask("select broken")).rejects.toMatchObject({ code: "invalid" });
  const rows = await world.entries();
  expect(rows.map((row) => [row["kind"], row["phase"], row["reason"], row["caller"], row["through"]])).toEqual([
    ["sql", "ended", "answered", "local:uid=1000", "cli"],
    ["sql", "ended", "invalid", "local:uid=1000", "cli"],
  ]);
  expect(rows[0]?.["details"]).toBe('{"rows":2}');
  expect(String(rows[0]?.["command"])).toMatch(/^select \* from host/);
  expect(String(rows[0]?.["command"])).not.toContain("hunter22");
  const failing = withAudit(backendOf({ sql }), {
    recorder: { note: () => Promise.reject(new Error("disk full")) },
    log: silentLogger,
  });
  expect(await failing.sql({ sql: "select 1", maxRows: 1, maxBytes: 1, timeoutMs: 1 }, context)).toBeDefined();
});

test("withAudit() records queries of an agent's runtime context", async () => {
  await using world = await openAuditWorld();
  const runtimeContext = async () => ({}) as never;
  const backend = withAudit(backendOf({ runtimeContext }), { recorder: world.recorder, log: silentLogger });
  await backend.runtimeContext({ agentId: "web-1", refresh: true, history: 0 }, context);
  expect(await world.entries()).toMatchObject([
    {
      kind: "runtime",
      phase: "ended",
      target: "agent web-1",
      command: "runtime context, refreshed",
      reason: "answered",
      caller: "local:uid=1000",
    },
  ]);
});

test("withAudit() runs queries over the budget without an entry", async () => {
  await using world = await openAuditWorld();
  let left = 2;
  const queries = { take: () => left-- > 0 };
  const sql = async () => ({ rows: [] }) as never;
  const backend = withAudit(backendOf({ sql }), { recorder: world.recorder, queries, log: silentLogger });
  for (let index = 0; index < 5; index++) await backend.sql({ sql: "select 1", maxRows: 1, maxBytes: 1, timeoutMs: 1 }, context);
  expect(await world.entries()).toHaveLength(2);
});

test("withAudit() records changes before and after, and rejects those that it cannot record", async () => {
  await using world = await openAuditWorld();
  let revoked = 0;
  const revokeAgent = async (agentId: string) => {
    revoked++;
    return { agentId, hostname: "", revokedAt: "" };
  };
  await withAudit(backendOf({ revokeAgent }), { recorder: world.recorder, log: silentLogger }).revokeAgent("web-1", context);
  expect((await world.entries()).map((row) => [row["kind"], row["phase"], row["target"], row["command"], row["reason"]])).toEqual([
    ["agent", "asked", "agent web-1", "revoke", ""],
    ["agent", "ended", "agent web-1", "revoke", "done"],
  ]);
  const failing = withAudit(backendOf({ revokeAgent }), {
    recorder: { note: () => Promise.reject(new Error("disk full")) },
    log: silentLogger,
  });
  await expect(failing.revokeAgent("web-1", context)).rejects.toThrow("disk full");
  expect(revoked).toBe(1);
});

test("withAudit() records start and end of captures, even when the reader disconnects", async () => {
  await using world = await openAuditWorld();
  const capture = async function* () {
    yield { kind: "started", captureId: "cap-1", service: "api", agents: [] } as never;
    for (;;) yield { kind: "request", request: {} } as never;
  };
  const backend = withAudit(backendOf({ capture }), { recorder: world.recorder, log: silentLogger });
  const request = { service: "api", agentIds: ["web-1"], minDurationMs: 0, limit: 5, durationMs: 1, includeBody: true, route: "/pay" };
  let seen = 0;
  for await (const _event of backend.capture(request, context)) if (++seen > 3) break;
  const rows = await world.entries();
  expect(rows.map((row) => [row["command_id"], row["phase"], row["reason"], row["command"]])).toEqual([
    ["cap-1", "asked", "", "capture route=/pay with bodies"],
    ["cap-1", "ended", "cancelled", "capture route=/pay with bodies"],
  ]);
  expect(JSON.parse(String(rows[1]?.["details"]))).toMatchObject({ requests: 3 });
});

test("AuditRecorder.open() closes everything when it fails", async () => {
  await using world = await openAuditWorld();
  const journalFile = join(tmpdir(), `coral-audit-recorder-${process.pid}.jsonl`);
  const store = { database: world.store.database, query: () => Promise.reject(new Error("gone")) } as unknown as ColonyStore;
  await expect(AuditRecorder.open({ chain: world.chain, journalFile, clock: world.clock, log: silentLogger }, store)).rejects.toThrow(
    "gone",
  );
  expect(openFiles()).not.toContain(journalFile);
  rmSync(journalFile);
});

test("withAudit() records a replay before the recording is read", async () => {
  await using world = await openAuditWorld();
  const recording = async function* () {
    yield Buffer.from("x");
  };
  const backend = withAudit(backendOf({ recording }), { recorder: world.recorder, log: silentLogger });
  for await (const _part of backend.recording({ agentId: "web-1", recording: "r1" }, context)) {
    expect((await world.entries()).map((row) => [row["kind"], row["recording"], row["caller"]])).toEqual([
      ["replay", "r1", "local:uid=1000"],
    ]);
  }
});
