import { once } from "node:events";
import { truncateSync } from "node:fs";
import { expect, test } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { type AgentStore, openAgentStore } from "../agent/agent-store.ts";
import type { Engine } from "../engine/engine.ts";
import type { Signal } from "../signals/define-signal.ts";
import {
  type SampleRow,
  sample,
  sampleRows,
  seededRandom,
  smallDisk,
  spawnProgram,
  TestClock,
  temporaryFolder,
  testEngine,
} from "../store.fixture.ts";
import type { AgentPull } from "../tables/pull-plan.ts";
import { type ColonyStore, type ColonyStoreOptions, openColonyStore } from "./colony-store.ts";
import { listEvents } from "./registry-tables.ts";

const mebibyte = 1024 ** 2;
const minuteMs = 60_000;
const signals = [sample] as unknown as Signal[];
const everything = { maxBytes: 64 * mebibyte, maxRows: 1_000_000 };

interface Opening extends Partial<ColonyStoreOptions> {
  file: string;
}

const open = (engine: Engine, opening: Opening): Promise<ColonyStore> =>
  openColonyStore(engine, { signals, maxBytes: 256 * mebibyte, clock: new TestClock(), log: silentLogger, ...opening });

const openAgent = (engine: Engine, file: string, clock: TestClock, maxBytes = 64 * mebibyte): Promise<AgentStore> =>
  openAgentStore(engine, { file, signals, maxBytes, clock, log: silentLogger });

const nowRows = (clock: TestClock, count: number, first = 0): SampleRow[] =>
  sampleRows(count, (index) => clock.wall * 1_000 + index, first);

async function answer(agent: AgentStore, colony: ColonyStore, agentId: string, limits = everything): Promise<AgentPull> {
  const after = colony.checkpoints(agentId, agent.epoch).afterSeq.get("sample") ?? 0;
  return { agentId, epoch: agent.epoch, slices: [await agent.readAfter("sample", after, limits)], losses: agent.losses() };
}

async function pull(agent: AgentStore, colony: ColonyStore, agentId = "agent-1", limits = everything): Promise<number> {
  const [outcome] = await colony.applyPulls([await answer(agent, colony, agentId, limits)]);
  if (outcome?.error) throw outcome.error;
  return outcome?.storedRows ?? 0;
}

const counts = async (colony: ColonyStore): Promise<unknown> =>
  await colony.query("SELECT agent_id, count(*) AS n, count(DISTINCT (epoch, seq)) AS d FROM sample GROUP BY agent_id ORDER BY agent_id");

test("stores pulled rows and moves the checkpoint with them", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using agent = await openAgent(engine, folder.file("a.duckdb"), clock);
  await using colony = await open(engine, { file: folder.file("c.duckdb"), clock });
  expect(colony.checkpoints("agent-1")).toEqual({ afterSeq: new Map() });
  await agent.append(sample, nowRows(clock, 5_000));
  while ((await pull(agent, colony, "agent-1", { maxBytes: 100_000, maxRows: 1_000 })) > 0);
  expect(colony.checkpoints("agent-1")).toEqual({ epoch: agent.epoch, afterSeq: new Map([["sample", 5_000]]) });
  const columns = `seq, "time", ${Object.keys(sample.columns).join(", ")}`;
  const wanted = await agent.query(`SELECT ${columns} FROM sample ORDER BY seq`);
  expect(await colony.query(`SELECT ${columns} FROM sample ORDER BY seq`)).toEqual(wanted);
  expect(await colony.query("SELECT DISTINCT agent_id, epoch FROM sample")).toEqual([{ agent_id: "agent-1", epoch: agent.epoch }]);
  expect(await pull(agent, colony)).toBe(0);
});

test("applyPulls() stores each row once, whatever is repeated, overlapping or late, and across restarts", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using agent = await openAgent(engine, folder.file("a.duckdb"), clock);
  const random = seededRandom(11);
  const file = folder.file("c.duckdb");
  let colony = await open(engine, { file, clock });
  const past: AgentPull[] = [];
  for (let round = 0; round < 40; round++) {
    await agent.append(sample, nowRows(clock, 1 + Math.floor(random() * 50)));
    const fresh = await answer(agent, colony, "agent-1", { maxBytes: mebibyte, maxRows: 1 + Math.floor(random() * 60) });
    past.push(fresh);
    const again = past[Math.floor(random() * past.length)]!;
    const outcomes = await colony.applyPulls(random() < 0.5 ? [fresh, again, fresh] : [again, fresh]);
    expect(outcomes.some(({ error }) => error)).toBe(false);
    // Two concurrent calls must not plan from the same checkpoint.
    if (round % 7 === 0) await Promise.all([colony.applyPulls([fresh]), colony.applyPulls([fresh])]);
    if (round % 13 === 0) {
      await colony.close();
      colony = await open(engine, { file, clock });
    }
  }
  while ((await pull(agent, colony)) > 0);
  const total = agent.heads().get("sample")!.nextSeq - 1;
  expect(await counts(colony)).toEqual([{ agent_id: "agent-1", n: total, d: total }]);
  expect(await colony.gaps()).toEqual([]);
  await colony.close();
});

test("applyPulls() stores several agents in one transaction; a malformed response fails only its own agent", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using agent = await openAgent(engine, folder.file("a.duckdb"), clock);
  await using colony = await open(engine, { file: folder.file("c.duckdb"), clock });
  await agent.append(sample, nowRows(clock, 100));
  const good = await answer(agent, colony, "good");
  const slice = good.slices[0]!;
  const bad: AgentPull = {
    ...good,
    agentId: "bad",
    slices: [{ ...slice, batch: { ...slice.batch!, data: slice.batch!.data.subarray(1) } }],
  };
  const outcomes = await colony.applyPulls([good, bad, { ...good, agentId: "other" }]);
  expect(outcomes).toMatchObject([
    { agentId: "good", storedRows: 100 },
    { agentId: "bad", storedRows: 0, error: { code: "invalid" } },
    { agentId: "other", storedRows: 100 },
  ]);
  expect(await counts(colony)).toEqual([
    { agent_id: "good", n: 100, d: 100 },
    { agent_id: "other", n: 100, d: 100 },
  ]);
  expect(colony.checkpoints("bad")).toEqual({ afterSeq: new Map() });
  expect(await colony.applyPulls([])).toEqual([]);
});

test("records a gap with its size when the agent pruned before the pull", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using agent = await openAgent(engine, folder.file("a.duckdb"), clock);
  await using colony = await open(engine, { file: folder.file("c.duckdb"), clock });
  await agent.append(sample, nowRows(clock, 10));
  await pull(agent, colony);
  await agent.append(sample, nowRows(clock, 20));
  clock.pass(61 * minuteMs);
  await agent.prune();
  await agent.append(sample, nowRows(clock, 5));
  const [outcome] = await colony.applyPulls([await answer(agent, colony, "agent-1")]);
  expect(outcome).toEqual({ agentId: "agent-1", storedRows: 5, lostRows: 20 });
  const at = clock.wall * 1_000;
  const gap = { at, agentId: "agent-1", signal: "sample", epoch: agent.epoch, reason: "pruned", rows: 20, firstSeq: 11, lastSeq: 30 };
  expect(await colony.gaps()).toEqual([gap]);
  expect(await colony.gaps({ agentId: "agent-1", signal: "sample", since: at })).toEqual([gap]);
  expect(await colony.gaps({ since: at + 1 })).toEqual([]);
  expect(await colony.gaps({ agentId: "agent-2" })).toEqual([]);
  expect(await colony.gaps({ signal: "other" })).toEqual([]);
  expect(await colony.query("SELECT * FROM gaps")).toEqual([
    { time: at, agent_id: "agent-1", signal: "sample", reason: "pruned", rows: 20 },
  ]);
});

test("starts a new epoch at its first row, and counts nothing twice when two hosts alternate under one id", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using colony = await open(engine, { file: folder.file("c.duckdb"), clock });
  const first = await openAgent(engine, folder.file("a1.duckdb"), clock);
  await first.append(sample, nowRows(clock, 30));
  const fromFirst = await answer(first, colony, "twin");
  await colony.applyPulls([fromFirst]);
  await first.append(sample, nowRows(clock, 4));
  const firstEpoch = first.epoch;
  await first.close();
  const second = await openAgent(engine, folder.file("a2.duckdb"), clock);
  await second.append(sample, nowRows(clock, 50));
  // Requested with the old epoch's cursor, because the colony did not know the new epoch: rows 31 to 50 must wait for 1 to 30.
  const wrong: AgentPull = { agentId: "twin", epoch: second.epoch, slices: [await second.readAfter("sample", 30, everything)], losses: [] };
  expect(await colony.applyPulls([wrong])).toMatchObject([{ storedRows: 0, lostRows: 0 }]);
  expect(await pull(second, colony, "twin")).toBe(50);
  expect(colony.checkpoints("twin").epoch).toBe(second.epoch);
  await colony.applyPulls([fromFirst]);
  expect(colony.checkpoints("twin", firstEpoch).afterSeq.get("sample")).toBe(30);
  await second.close();
  const again = await openAgent(engine, folder.file("a1.duckdb"), clock);
  expect(await pull(again, colony, "twin")).toBe(4);
  await again.close();
  expect(await counts(colony)).toEqual([{ agent_id: "twin", n: 84, d: 84 }]);
  expect(await colony.gaps()).toMatchObject([{ reason: "epoch-changed", signal: "*", epoch: firstEpoch, rows: null }]);
});

test("turns losses that an agent counts into gaps", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using colony = await open(engine, { file: folder.file("c.duckdb"), clock });
  const report = (rows: number): AgentPull => ({
    agentId: "a",
    epoch: "e",
    slices: [],
    losses: [{ signal: "sample", reason: "disk-full", rows }],
  });
  expect(await colony.applyPulls([report(7)])).toMatchObject([{ lostRows: 7 }]);
  expect(await colony.applyPulls([report(7)])).toMatchObject([{ lostRows: 0 }]);
  expect(await colony.applyPulls([report(9)])).toMatchObject([{ lostRows: 2 }]);
  expect((await colony.gaps()).map(({ reason, rows }) => [reason, rows]).toSorted()).toEqual([
    ["disk-full", 2],
    ["disk-full", 7],
  ]);
});

test("a full disk stores nothing of a pull, and the same pull succeeds after space is freed", async ({ skip }) => {
  const disk = smallDisk(6 * mebibyte);
  if (typeof disk === "string") return skip(disk);
  using _disk = disk;
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path, disk.path);
  const clock = new TestClock();
  await using agent = await openAgent(engine, folder.file("a.duckdb"), clock);
  await using colony = await open(engine, { file: `${disk.path}/c.duckdb`, clock });
  let failure: unknown;
  for (let round = 0; round < 100 && failure === undefined; round++) {
    await agent.append(sample, nowRows(clock, 1_000));
    await pull(agent, colony).catch((error: unknown) => {
      failure = error;
    });
  }
  expect(failure).toMatchObject({ code: "unavailable", message: expect.stringContaining("no space left") });
  const stored = colony.checkpoints("agent-1").afterSeq.get("sample")!;
  expect(await counts(colony)).toEqual([{ agent_id: "agent-1", n: stored, d: stored }]);
  disk.resize(128 * mebibyte);
  while ((await pull(agent, colony)) > 0);
  const total = agent.heads().get("sample")!.nextSeq - 1;
  expect(total).toBeGreaterThan(stored);
  expect(await counts(colony)).toEqual([{ agent_id: "agent-1", n: total, d: total }]);
  expect(await colony.gaps()).toEqual([]);
});

test("a damaged colony store starts empty, reports it, and pulls again what agents still have", async () => {
  using folder = temporaryFolder();
  const clock = new TestClock();
  const file = folder.file("c.duckdb");
  await using engine = await testEngine(folder.path);
  await using agent = await openAgent(engine, folder.file("a.duckdb"), clock);
  await agent.append(sample, nowRows(clock, 10));
  const before = await open(engine, { file, clock });
  await pull(agent, before);
  await before.close();
  clock.pass(61 * minuteMs);
  await agent.prune();
  await agent.append(sample, nowRows(clock, 5));
  truncateSync(file, 300_000);
  await using colony = await open(engine, { file, clock });
  expect(colony.opened).toMatchObject({ how: "recovered", keptCheckpoint: false });
  expect(await listEvents(colony, 0)).toMatchObject([
    { kind: "store-recovered", message: expect.stringContaining("damaged"), details: { movedTo: expect.any(String) } },
  ]);
  expect(await pull(agent, colony)).toBe(5);
  expect((await colony.gaps()).map(({ reason, rows }) => [reason, rows]).toSorted()).toEqual([
    ["before-first-pull", 10],
    ["colony-damaged", null],
  ]);
  expect(await colony.gaps({ agentId: "agent-1", signal: "sample" })).toHaveLength(2);
});

test("prune() removes rows by the time they were stored, whatever an agent's clock, and after rolling up", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using agent = await openAgent(engine, folder.file("a.duckdb"), clock);
  await using colony = await open(engine, { file: folder.file("c.duckdb"), clock });
  // Rows dated 1970, and one hour ahead.
  await agent.append(
    sample,
    sampleRows(10, (index) => index),
  );
  await agent.append(
    sample,
    sampleRows(10, () => (clock.wall + 60 * minuteMs) * 1_000, 10),
  );
  await pull(agent, colony);
  expect((await colony.prune()).prunedRows).toEqual({});
  clock.step(-60 * minuteMs);
  clock.pass(119 * minuteMs);
  expect((await colony.prune()).prunedRows).toEqual({});
  clock.pass(62 * minuteMs);
  expect((await colony.prune()).prunedRows).toEqual({ sample: 20 });
  expect(await colony.query("SELECT sum(sample_count) AS n FROM sample_1m")).toEqual([{ n: 20 }]);
  expect(await colony.query("SELECT sum(sample_count) AS n FROM sample_10m")).toEqual([{ n: 20 }]);
  clock.pass(15 * 24 * 60 * minuteMs);
  await colony.prune();
  expect(await colony.query("SELECT count(*) AS n FROM sample_1m")).toEqual([{ n: 0 }]);
  expect(await colony.query("SELECT sum(sample_count) AS n FROM sample_10m")).toEqual([{ n: 20 }]);
  expect(colony.checkpoints("agent-1").afterSeq.get("sample")).toBe(20);
});

test("prune() by bytes reduces the used size and keeps the newest rows", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using agent = await openAgent(engine, folder.file("a.duckdb"), clock, 256 * mebibyte);
  await using colony = await open(engine, { file: folder.file("c.duckdb"), clock, maxBytes: 5 * mebibyte });
  const random = seededRandom(5);
  for (let round = 0; round < 20; round++) {
    clock.pass(minuteMs);
    await agent.append(
      sample,
      nowRows(clock, 6_000).map((row) => ({ ...row, ratio: random(), note: `${random()}${random()}` })),
    );
    await pull(agent, colony);
  }
  const { usedBytes, prunedRows } = await colony.prune();
  expect(usedBytes).toBeLessThanOrEqual(5 * mebibyte);
  expect(prunedRows["sample"]).toBeGreaterThan(20_000);
  const [left] = await colony.query("SELECT min(seq) AS low, max(seq) AS high, count(*) AS n FROM sample");
  expect(left).toEqual({ low: prunedRows["sample"]! + 1, high: 120_000, n: 120_000 - prunedRows["sample"]! });
  expect(Number(left!["n"])).toBeGreaterThan(25_000);
  expect(await colony.query("SELECT sum(sample_count) AS n FROM sample_10m")).toEqual([{ n: 120_000 }]);
  expect((await colony.stats()).rows).toEqual({ sample: left!["n"] });
});

test("kill -9 of the colony during pulls loses and duplicates nothing", { timeout: 60_000 }, async () => {
  using folder = temporaryFolder();
  const clock = new TestClock();
  const [agentFile, colonyFile] = [folder.file("a.duckdb"), folder.file("c.duckdb")];
  {
    await using engine = await testEngine(folder.path);
    await using agent = await openAgent(engine, agentFile, clock);
    for (let round = 0; round < 3; round++) await agent.append(sample, nowRows(clock, 15_000));
  }
  const program = `
    const { openEngine } = await import("./engine/engine.ts");
    const { openAgentStore } = await import("./agent/agent-store.ts");
    const { openColonyStore } = await import("./colony/colony-store.ts");
    const { sample, TestClock } = await import("./store.fixture.ts");
    const { silentLogger: log } = await import("../base/log.ts");
    const [, , agentFile, colonyFile, folder] = process.argv;
    const engine = await openEngine({ dataDirectories: [folder], memoryLimitBytes: 16 * 1024 ** 2, threads: 1, log });
    const options = { signals: [sample], maxBytes: 1024 ** 3, clock: new TestClock(), log };
    const agent = await openAgentStore(engine, { file: agentFile, ...options });
    const colony = await openColonyStore(engine, { file: colonyFile, ...options });
    for (;;) {
      const after = colony.checkpoints("a", agent.epoch).afterSeq.get("sample") ?? 0;
      const slice = await agent.readAfter("sample", after, { maxBytes: 1e6, maxRows: 97 });
      await colony.applyPulls([{ agentId: "a", epoch: agent.epoch, slices: [slice], losses: [] }]);
      if (after % 970 === 0) await colony.rollup();
      process.stdout.write(".");
    }
  `;
  const random = seededRandom(8);
  for (let round = 0; round < 3; round++) {
    const child = spawnProgram(program, folder.path, [agentFile, colonyFile, folder.path]);
    let done = 0;
    child.stdout!.on("data", (text) => {
      done += String(text).length;
      if (done > 20 + random() * 60) child.kill("SIGKILL");
    });
    await once(child, "close");
  }
  await using engine = await testEngine(folder.path);
  await using agent = await openAgent(engine, agentFile, clock);
  await using colony = await open(engine, { file: colonyFile, clock });
  const stored = colony.checkpoints("a").afterSeq.get("sample")!;
  expect(stored).toBeGreaterThan(60 * 97);
  expect(await counts(colony)).toEqual([{ agent_id: "a", n: stored, d: stored }]);
  await pull(agent, colony, "a");
  expect(await counts(colony)).toEqual([{ agent_id: "a", n: 45_000, d: 45_000 }]);
  await colony.rollup();
  expect(await colony.query("SELECT sum(sample_count) AS n FROM sample_1m")).toEqual([{ n: 45_000 }]);
});
