import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { openAgentStore } from "../agent/agent-store.ts";
import type { Signal } from "../signals/define-signal.ts";
import { event } from "../signals/discovery.ts";
import { host } from "../signals/host.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { openColonyStore } from "./colony-store.ts";

const signals = [event, host] as unknown as Signal[];
const mebibyte = 1024 ** 2;
const hour = 3_600_000;

async function withStores(run: (stores: Awaited<ReturnType<typeof openStores>>) => Promise<void>): Promise<void> {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const stores = await openStores(engine, (name) => folder.file(name));
  await using _agent = stores.agent;
  await using _colony = stores.colony;
  await run(stores);
}

async function openStores(engine: Awaited<ReturnType<typeof testEngine>>, file: (name: string) => string) {
  const clock = new TestClock();
  const options = { signals, maxBytes: 64 * mebibyte, clock, log: silentLogger };
  const agent = await openAgentStore(engine, { ...options, file: file("a.duckdb") });
  const colony = await openColonyStore(engine, { ...options, file: file("c.duckdb") });
  const record = async (details: unknown): Promise<void> => {
    const text = typeof details === "string" ? details : JSON.stringify(details);
    const row = { kind: "agent-unobserved", severity: "warning", service: null, pid: null, message: "", details: text };
    await agent.append(event, [{ at: clock.wall * 1_000, mono_ms: 1, ...row }]);
  };
  const pull = async (): Promise<void> => {
    const after = colony.checkpoints("web-1", agent.epoch).afterSeq.get(event.name) ?? 0;
    const slice = await agent.readAfter(event.name, after, { maxBytes: mebibyte, maxRows: 1_000 });
    const [outcome] = await colony.applyPulls([{ agentId: "web-1", epoch: agent.epoch, slices: [slice], losses: [] }]);
    if (outcome?.error) throw outcome.error;
  };
  return { agent, colony, clock, record, pull };
}

test("records unobserved time of agents once, and keeps it longer than its event", async () => {
  await withStores(async ({ colony, clock, record, pull }) => {
    const atMs = clock.wall;
    await record({ fromMs: atMs - 60_000, untilMs: atMs - 1_000, reason: "killed" });
    await pull();
    await pull();
    const fact = { agentId: "web-1", fromMs: atMs - 60_000, untilMs: atMs - 1_000, reason: "killed" };
    expect(await colony.unobserved(atMs - hour)).toEqual([fact]);
    expect(await colony.unobserved(atMs)).toEqual([]);
    clock.pass(40 * 24 * hour);
    await colony.prune();
    expect(await colony.query("SELECT count(*) AS n FROM agent_event")).toEqual([{ n: 0 }]);
    expect(await colony.unobserved(atMs - hour)).toEqual([fact]);
    clock.pass(30 * 24 * hour);
    await colony.prune();
    expect(await colony.unobserved(atMs - hour)).toEqual([]);
  });
});

test("ignores event details that are not a gap", async () => {
  await withStores(async ({ colony, clock, record, pull }) => {
    for (const details of [
      "{",
      "null",
      "[1]",
      { fromMs: 5, untilMs: 4, reason: "x" },
      { fromMs: 1, untilMs: 9e18, reason: "x" },
      { fromMs: "1" },
    ]) {
      await record(details);
    }
    await pull();
    expect(await colony.unobserved(0)).toEqual([]);
    expect(await colony.query("SELECT count(*) AS n FROM agent_event")).toEqual([{ n: 6 }]);
    expect(clock.wall).toBeGreaterThan(0);
  });
});

test("kept() lists signals that lost rows at every resolution, and since when they are kept", async () => {
  await withStores(async ({ colony, clock, record, pull }) => {
    await record({});
    await pull();
    await colony.prune();
    expect(await colony.kept()).toEqual([]);
    clock.pass(20 * 24 * hour);
    const secondMs = clock.wall;
    await record({});
    await pull();
    clock.pass(11 * 24 * hour);
    await colony.prune();
    expect(await colony.kept()).toEqual([{ signal: "agent_event", sinceMs: Math.floor(secondMs) }]);
  });
});
