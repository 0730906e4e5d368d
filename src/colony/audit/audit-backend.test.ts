import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import type { VerifyAuditRequest } from "../../proto/coral/agent/v1/audit_pb.ts";
import { openAuditWorld, registryOf } from "./audit.fixture.ts";
import { createAuditBackend } from "./audit-backend.ts";
import { PendingApprovals } from "./pending-approvals.ts";

type World = Awaited<ReturnType<typeof openAuditWorld>>;

const context = { signal: new AbortController().signal, caller: "local:uid=0" };
const hash = (character: string): string => character.repeat(64);

/** An agent that reports no problems whatever its file holds: only a comparison can find any. */
function claiming({ agent }: World, anchors: { colonyId?: string; chainId: string; entry: number; hash: string }[] = []) {
  return {
    verifyAudit: async ({ entries }: VerifyAuditRequest) => {
      const rows = await agent.query("SELECT entry, hash FROM audit ORDER BY seq");
      const links = rows.map((row) => ({ chainId: agent.epoch, entry: BigInt(Number(row["entry"])), hash: String(row["hash"]) }));
      const head = links.at(-1) ?? { chainId: agent.epoch, entry: 0n, hash: "" };
      const wanted = links.filter(({ entry }) => entries.includes(entry));
      const colonyLinks = anchors.map((anchor) => ({ ...anchor, entry: BigInt(anchor.entry) }));
      return {
        head,
        links: wanted,
        firstEntry: links[0]?.entry ?? 0n,
        entries: BigInt(links.length),
        problems: [],
        moreProblems: 0n,
        colonyLinks,
      };
    },
  };
}

function backendOf(world: World, agents: Parameters<typeof registryOf>[0]) {
  const registry = registryOf(agents);
  const { store, chain, clock, recorder } = world;
  const approvals = new PendingApprovals({ store, registry, audit: recorder, allowsOwn: () => false, clock, log: silentLogger });
  return createAuditBackend({
    settled: () => recorder.settled(),
    store,
    chain,
    colonyId: "shop",
    registry,
    approvals,
    wallMs: clock.wallMs,
  });
}

async function filled(entries: number): Promise<World> {
  const world = await openAuditWorld();
  await world.write(
    ...Array.from({ length: entries }, (_, index) => ({
      kind: "exec",
      phase: "begun",
      command: `c${index + 1}`,
      command_id: `id-${index + 1}`,
    })),
  );
  await world.pull();
  await world.recorder.note({ kind: "sql", phase: "ended", command: "select 1", isSql: true });
  return world;
}

const problemsOf = (chains: { agentId: string | null; where: string; problems: { kind: string; entry: number }[] }[]): string[] =>
  chains.flatMap(({ agentId, where, problems }) => problems.map(({ kind, entry }) => `${agentId ?? "colony"} ${where}: ${kind} ${entry}`));

test("verifyAudit() reports no problem for intact chains, and notes agents that it could not check", async () => {
  await using world = await filled(5);
  const backend = backendOf(world, {
    "web-1": claiming(world),
    away: null,
    old: { verifyAudit: () => Promise.reject(new ConnectError("", Code.Unimplemented)) },
  });
  const answer = await backend.verifyAudit({}, context);
  expect(answer.isWhole).toBe(true);
  expect(answer.chains.map(({ agentId, where, entries, lastEntry }) => [agentId, where, entries, lastEntry])).toEqual([
    [null, "colony", 1, 1],
    ["web-1", "agent", 5, 5],
    ["web-1", "colony", 5, 5],
  ]);
  expect(answer.notes).toEqual([
    "away.host is not connected: only the colony's copy of its audit was checked",
    "old.host has no audit: its version is too old; update the agent",
  ]);
});

test.each([1, 2, 77, 199, 200])("verifyAudit() locates a rewrite in an agent's consistent chain: entry %i", async (first) => {
  await using world = await filled(200);
  await world.rewrite(first, "nothing");
  await world.write({ kind: "exec", phase: "begun", command: "later" });
  const backend = backendOf(world, { "web-1": claiming(world) });
  const answer = await backend.verifyAudit({ agentIds: ["web-1"] }, context);
  expect(answer.isWhole).toBe(false);
  expect(problemsOf(answer.chains)).toEqual([`web-1 agent: rewritten ${first}`]);
});

test("verifyAudit() finds a rewritten chain after later entries were pulled", async () => {
  await using world = await filled(100);
  await world.rewrite(40, "nothing");
  await world.write({ kind: "exec", phase: "begun", command: "later" });
  await world.pull();
  const backend = backendOf(world, { "web-1": claiming(world) });
  expect(problemsOf((await backend.verifyAudit({}, context)).chains)).toEqual(["web-1 agent: rewritten 40", "web-1 colony: unlinked 101"]);
});

test("verifyAudit() finds pulled entries that are missing at the agent", async () => {
  await using world = await filled(5);
  await world.agent.query("DELETE FROM audit WHERE seq > 3");
  const backend = backendOf(world, { "web-1": claiming(world) });
  expect(problemsOf((await backend.verifyAudit({}, context)).chains)).toEqual(["web-1 agent: cut 4"]);
});

test("verifyAudit() finds entries lost with the agent's store before they were pulled", async () => {
  await using world = await filled(5);
  const begunAnew = (chainId: string, entry: number) => ({
    kind: "chain",
    phase: "noted",
    reason: "begun-anew",
    details: JSON.stringify({ before: { chainId, entry, hash: hash("a") } }),
  });
  // Pulled entries are here; a chain of another colony cannot be judged.
  await world.write(begunAnew(world.agent.epoch, 5), begunAnew("elsewhere", 99));
  await world.pull();
  const backend = backendOf(world, { "web-1": claiming(world) });
  expect((await backend.verifyAudit({}, context)).isWhole).toBe(true);
  await world.write(begunAnew(world.agent.epoch, 12), { ...begunAnew("", 0), details: "{}" });
  await world.pull();
  expect(problemsOf((await backend.verifyAudit({}, context)).chains)).toEqual(["web-1 colony: cut 10"]);
});

test("verifyAudit() finds a rewrite of the colony's copy", async () => {
  await using world = await filled(5);
  await world.store.write((transaction) => transaction.run("UPDATE raw.audit SET command = 'x' WHERE seq = 2"));
  await world.store.write((transaction) => transaction.run(`UPDATE raw.audit SET hash = '${hash("a")}' WHERE seq = 5`));
  const backend = backendOf(world, { "web-1": claiming(world) });
  expect(problemsOf((await backend.verifyAudit({}, context)).chains)).toEqual([
    "web-1 agent: rewritten 5",
    "web-1 colony: changed 2",
    "web-1 colony: changed 5",
  ]);
});

test("verifyAudit() finds a rewritten or truncated chain of the colony from the links that agents keep", async () => {
  await using world = await filled(1);
  for (let index = 0; index < 4; index++)
    await world.recorder.note({ kind: "sql", phase: "ended", command: `select ${index}`, isSql: true });
  const { chainId } = world.chain;
  const [row] = (await world.entries()).slice(2, 3);
  const honest = { chainId, entry: 3, hash: String(row?.["hash"]) };
  const check = async (...anchors: { colonyId?: string; chainId: string; entry: number; hash: string }[]) =>
    await backendOf(world, { "web-1": claiming(world, anchors) }).verifyAudit({}, context);
  expect((await check(honest)).isWhole).toBe(true);
  expect(problemsOf((await check(honest, { chainId, entry: 2, hash: hash("b") })).chains)).toEqual(["colony colony: rewritten 2"]);
  expect(problemsOf((await check({ chainId, entry: 9, hash: hash("b") })).chains)).toEqual(["colony colony: cut 9"]);
  const other = await check({ chainId: "another", entry: 9, hash: hash("b") });
  expect(other.isWhole).toBe(true);
  expect(other.notes).toEqual([expect.stringContaining("it has links of another audit chain")]);
  // The agent was part of another colony before.
  expect(await check({ colonyId: "another", chainId: "another", entry: 9, hash: hash("b") })).toMatchObject({ isWhole: true, notes: [] });
  const wiped = await check(
    { colonyId: "shop", chainId: "former", entry: 9, hash: hash("b") },
    { colonyId: "shop", chainId: "former", entry: 7, hash: hash("c") },
  );
  expect(wiped.isWhole).toBe(false);
  expect(problemsOf(wiped.chains)).toEqual(["colony colony: cut 9"]);
  expect(wiped.chains[0]?.problems[0]?.message).toContain("the colony's store was removed or replaced (according to web-1.host)");
});

test("verifyAudit() compares with hashes that the caller kept elsewhere", async () => {
  await using world = await filled(3);
  const backend = backendOf(world, { "web-1": claiming(world) });
  const { chains } = await backend.verifyAudit({}, context);
  const kept = chains.map(({ chainId, lastEntry, head }) => ({ chainId, entry: lastEntry, hash: head }));
  expect(await backend.verifyAudit({ expected: kept }, context)).toMatchObject({ isWhole: true, notes: [] });
  const { chainId } = world.chain;
  const expected = [
    { chainId, entry: 1, hash: hash("a") },
    { chainId: world.agent.epoch, entry: 9, hash: hash("a") },
    { chainId: "unknown", entry: 9, hash: hash("a") },
  ];
  const answer = await backend.verifyAudit({ expected }, context);
  expect(problemsOf(answer.chains)).toEqual(["colony colony: rewritten 1", "web-1 colony: cut 9"]);
  expect(answer.notes).toEqual(["chain unknown is unknown: cannot check its entry 9"]);
});

test("verifyAudit() bounds an agent's report", async () => {
  await using world = await filled(1);
  const problems = Array.from({ length: 10_000 }, (_, index) => ({
    kind: "x".repeat(1_000),
    entry: BigInt(index),
    message: "y".repeat(10_000),
  }));
  const verifyAudit = async () => ({ ...(await claiming(world).verifyAudit({ entries: [1n] } as never)), problems });
  const answer = await backendOf(world, { "web-1": { verifyAudit } }).verifyAudit({}, context);
  expect(answer.isWhole).toBe(false);
  expect(JSON.stringify(answer).length).toBeLessThan(50_000);
});

test("audit() and auditEntries() name agents and give ISO times", async () => {
  await using world = await filled(2);
  const backend = backendOf(world, { "web-1": null });
  const records = await backend.audit({ sinceMs: 3_600_000, limit: 10 }, context);
  expect(records.map(({ id, hostname, at }) => [id, hostname, at])).toContainEqual(["id-2", "web-1.host", "2026-01-01T00:00:00.000Z"]);
  const [entry] = await backend.auditEntries({ id: "id-2", limit: 5 }, context);
  expect(entry).toMatchObject({ id: "id-2", entry: 2, phase: "begun" });
});

test("recording() streams the parts, and fails when the agent is not connected", async () => {
  await using world = await filled(1);
  const readRecording = async function* ({ recording }: { recording: string }) {
    yield { data: Buffer.from(`${recording} one`) };
    yield { data: Buffer.from("two") };
  };
  const backend = backendOf(world, { "web-1": { readRecording }, away: null });
  const parts: string[] = [];
  for await (const part of backend.recording({ agentId: "web-1", recording: "r" }, context)) parts.push(Buffer.from(part).toString());
  expect(parts).toEqual(["r one", "two"]);
  const away = backend.recording({ agentId: "away", recording: "r" }, context);
  await expect(away[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "unavailable" });
});
