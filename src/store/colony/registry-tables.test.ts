import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import type { Engine } from "../engine/engine.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { type ColonyStore, openColonyStore } from "./colony-store.ts";
import {
  type AgentRegistration,
  insertToken,
  listAgents,
  listConflicts,
  listEvents,
  listTokens,
  recordConflict,
  recordEvent,
  revokeAgent,
  revokeToken,
  type TokenRecord,
  touchAgents,
  upsertAgent,
  useToken,
} from "./registry-tables.ts";

const open = (engine: Engine, file: string): Promise<ColonyStore> =>
  openColonyStore(engine, { file, signals: [], maxBytes: 1024 ** 3, log: silentLogger, clock: new TestClock() });

const registration = (agentId: string, changes: Partial<AgentRegistration> = {}): AgentRegistration => ({
  ...{ agentId, hostname: `host-${agentId}`, machineId: "m", bootId: "b", os: "Debian 12", kernel: "6.1", arch: "x64", version: "0.1.0" },
  ...{ protocolVersion: 1, epoch: "e", labels: { zone: "a'b" }, capabilities: [{ name: "ebpf", available: false, reason: "no BTF" }] },
  ...changes,
});

test("upsertAgent() keeps first contact and revocation, and updates the rest", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, folder.file("c.duckdb"));
  await upsertAgent(store, registration("one"), 1_000);
  expect((await listAgents(store))[0]).toEqual({
    ...registration("one"),
    ...{ firstSeenAt: 1_000, lastSeenAt: 1_000, registeredAt: 1_000, revokedAt: null, pullLagMs: null },
  });
  expect(await revokeAgent(store, "one", 1_500)).toBe(true);
  expect(await revokeAgent(store, "one", 1_600)).toBe(true);
  expect(await revokeAgent(store, "none", 1_500)).toBe(false);
  await upsertAgent(store, registration("one", { kernel: "6.2", epoch: "f", labels: {} }), 2_000);
  expect((await listAgents(store))[0]).toEqual({
    ...registration("one", { kernel: "6.2", epoch: "f", labels: {} }),
    ...{ firstSeenAt: 1_000, lastSeenAt: 2_000, registeredAt: 2_000, revokedAt: 1_500, pullLagMs: null },
  });
  expect(await listAgents(store)).toHaveLength(1);
});

test("touchAgents() records many contacts at once and never goes back", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, folder.file("c.duckdb"));
  for (const id of ["a", "b", "c"]) await upsertAgent(store, registration(id), 1_000);
  const strangers = Array.from({ length: 1_200 }, (_, index) => ({ agentId: `stranger-${index}`, lastSeenAt: 9 }));
  await touchAgents(store, [{ agentId: "a", lastSeenAt: 5_000, pullLagMs: 12.5 }, ...strangers, { agentId: "b", lastSeenAt: 500 }]);
  await touchAgents(store, [{ agentId: "a", lastSeenAt: 6_000 }]);
  await touchAgents(store, []);
  expect((await listAgents(store)).map(({ agentId, lastSeenAt, pullLagMs }) => [agentId, lastSeenAt, pullLagMs])).toEqual([
    ["a", 6_000, 12.5],
    ["b", 1_000, null],
    ["c", 1_000, null],
  ]);
  expect(await store.query("SELECT agent_id, labels->>'zone' AS zone FROM agents WHERE agent_id = 'a'")).toEqual([
    { agent_id: "a", zone: "a'b" },
  ]);
});

const token = (id: string, changes: Partial<TokenRecord> = {}): TokenRecord => ({
  ...{
    id,
    kind: "join",
    secretSha256: "aa",
    permission: "join",
    createdAt: 1_000,
    expiresAt: 9_000,
    usesLeft: 2,
    revokedAt: null,
    note: "",
  },
  ...changes,
});

test("useToken() takes a use, or reports why it is refused", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, folder.file("c.duckdb"));
  await insertToken(store, token("t"));
  await insertToken(store, token("u", { kind: "user", usesLeft: null, permission: "read" }));
  await expect(insertToken(store, token("t"))).rejects.toThrow();
  const reason = async (id: string, secret: string, nowUs: number): Promise<unknown> => {
    const use = await useToken(store, id, secret, nowUs);
    return use.kind === "accepted" ? use.token.usesLeft : use.reason;
  };
  expect(await reason("none", "aa", 2_000)).toBe("unknown");
  expect(await reason("t", "ab", 2_000)).toBe("unknown");
  expect(await reason("t", "aaa", 2_000)).toBe("unknown");
  expect(await reason("t", "aa", 9_000)).toBe("expired");
  expect(await reason("t", "aa", 8_999)).toBe(1);
  expect(await reason("u", "aa", 2_000)).toBeNull();
  expect(await reason("t", "aa", 2_000)).toBe(0);
  expect(await reason("t", "aa", 2_000)).toBe("used-up");
  expect(await revokeToken(store, "u", 3_000)).toBe(true);
  expect(await revokeToken(store, "none", 3_000)).toBe(false);
  expect(await reason("u", "aa", 4_000)).toBe("revoked");
  expect((await listTokens(store)).map(({ id, usesLeft, revokedAt }) => [id, usesLeft, revokedAt])).toEqual([
    ["t", 0, null],
    ["u", null, 3_000],
  ]);
});

test("useToken() grants a single use once, however many concurrent requests", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  await using store = await open(engine, folder.file("c.duckdb"));
  await insertToken(store, token("t", { usesLeft: 1 }));
  const uses = await Promise.all(Array.from({ length: 20 }, () => useToken(store, "t", "aa", 2_000)));
  expect(uses.filter(({ kind }) => kind === "accepted")).toHaveLength(1);
});

test("keeps events and conflicts across a restart, newest first", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const store = await open(engine, folder.file("c.duckdb"));
  await recordEvent(store, { at: 1_000, kind: "agent-joined", agentId: "a", message: "Agent a joined", details: { by: "token" } });
  await recordEvent(store, { at: 2_000, kind: "colony-started", agentId: null, message: "It's up", details: {} });
  await recordConflict(store, { agentId: "a", hostA: "x", hostB: "y", noticedAt: 3_000 });
  await store.close();
  await using again = await open(engine, folder.file("c.duckdb"));
  expect(await listEvents(again, 0)).toEqual([
    { at: 2_000, kind: "colony-started", agentId: null, message: "It's up", details: {} },
    { at: 1_000, kind: "agent-joined", agentId: "a", message: "Agent a joined", details: { by: "token" } },
  ]);
  expect(await listEvents(again, 1_500)).toHaveLength(1);
  expect(await listEvents(again, 0, 1)).toHaveLength(1);
  expect(await listConflicts(again)).toEqual([{ agentId: "a", hostA: "x", hostB: "y", noticedAt: 3_000 }]);
});
