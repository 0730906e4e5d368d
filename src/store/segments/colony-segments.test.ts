import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { type AgentStore, openAgentStore } from "../agent/agent-store.ts";
import { type ColonyStore, openColonyStore } from "../colony/colony-store.ts";
import type { Engine } from "../engine/engine.ts";
import { defineSegmentSignal } from "../signals/define-segment-signal.ts";
import { runReadOnlySql } from "../sql/read-only-sql.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import type { AgentSegments } from "./agent-segments.ts";
import { batchFromSegmentRows } from "./batch-builder.ts";
import type { ColonySegments, ColonySegmentsOptions } from "./colony-segments.ts";
import { encodeParquet } from "./parquet/encode-parquet.ts";
import type { PulledSignal, SegmentOffer } from "./plan-segments.ts";
import { sealTicks, tick, tickBody, tickRows, traceOf } from "./segment.fixture.ts";

const mebibyte = 1024 ** 2;

interface Colony {
  store: ColonyStore;
  segments: ColonySegments;
  clock: TestClock;
}

async function openColony(
  engine: Engine,
  path: string,
  options: Partial<ColonySegmentsOptions> = {},
  clock = new TestClock(),
): Promise<Colony> {
  mkdirSync(path, { recursive: true });
  const store = await openColonyStore(engine, {
    file: join(path, "colony.duckdb"),
    signals: [],
    maxBytes: 64 * mebibyte,
    clock,
    log: silentLogger,
    segments: { signals: [tick], directory: path, maxBytes: 64 * mebibyte, unlinkDelayMs: 1, ...options },
  });
  return { store, segments: store.segments as ColonySegments, clock };
}

interface Agent {
  store: AgentStore;
  segments: AgentSegments;
  clock: TestClock;
}

async function openAgent(engine: Engine, path: string, clock = new TestClock()): Promise<Agent> {
  const store = await openAgentStore(engine, {
    file: join(path, "agent.duckdb"),
    signals: [],
    maxBytes: 64 * mebibyte,
    clock,
    log: silentLogger,
    segments: { signals: [tick], directory: path, maxBytes: 64 * mebibyte, seal: sealTicks, cut: { ageMs: 60_000 }, unlinkDelayMs: 1 },
  });
  return { store, segments: store.segments as AgentSegments, clock };
}

async function put(agent: Agent, count: number, first: number): Promise<void> {
  await agent.segments.append("tick", tickBody(tickRows(count, first)));
  await agent.segments.flush();
}

/** One pull between agent and colony, without the network. */
async function pull(agent: Agent, colony: Colony, { agentId = "a1", max = 100, upTo = Number.POSITIVE_INFINITY } = {}) {
  const { epoch } = agent.store;
  const after = colony.segments.checkpoints(agentId, epoch).get("tick") ?? 0;
  const listing = agent.segments.listAfter("tick", after, max);
  const filters = await agent.segments.lookupFilters(listing.entries);
  const offers = listing.entries
    .filter(({ number }) => number <= upTo)
    .map((entry): SegmentOffer => {
      const lookupFilter = filters.get(entry);
      return { ...entry, isLost: entry.state === "lost", ...(lookupFilter && { lookupFilter }) };
    });
  for (const offer of offers) {
    if (!offer.isLost) await colony.segments.receive(agentId, epoch, offer, agent.segments.read("tick", offer.number, 0));
  }
  const isAll = !listing.more && offers.length === listing.entries.length;
  const signal: PulledSignal = { signal: "tick", lastNumber: listing.lastNumber, totalRows: listing.totalRows, offers, isAll };
  return await colony.segments.commit({ agentId, epoch, signals: [signal] });
}

function bytesBelow(path: string): number {
  const files = readdirSync(path, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
  return files.reduce((total, { parentPath, name }) => total + statSync(join(parentPath, name)).size, 0);
}

async function counts({ store, segments }: Colony): Promise<{ rows: number; distinct: number }> {
  const { sql } = await segments.segmentSource(tick);
  const [row] = await store.query(`SELECT count(*) AS rows, count(DISTINCT span_id) AS spans FROM ${sql}`);
  return { rows: Number(row?.["rows"]), distinct: Number(row?.["spans"]) };
}

const sqlOf = (colony: Colony, sql: string) => runReadOnlySql(colony.store, { sql, maxRows: 100, maxBytes: 1_000_000, timeoutMs: 20_000 });

describe("openColonySegments()", () => {
  it("stores an agent's segments exactly once, however often a pull is repeated", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    expect(await pull(agent, colony)).toEqual({ storedRows: 0, lostRows: 0 });
    for (let index = 0; index < 5; index++) await put(agent, 10, index * 10);
    expect(await pull(agent, colony, { max: 2 })).toEqual({ storedRows: 20, lostRows: 0 });
    expect(await pull(agent, colony)).toEqual({ storedRows: 30, lostRows: 0 });
    expect(await pull(agent, colony)).toEqual({ storedRows: 0, lostRows: 0 });
    expect(await counts(colony)).toEqual({ rows: 50, distinct: 50 });
    // Filters stay cached after a commit: reading them back would happen on every query while rows arrive.
    await colony.store.write((transaction) => transaction.run("UPDATE segment.manifest SET lookup_filter = NULL"));
    expect((await colony.segments.segmentSource(tick, { lookup: traceOf(4) })).files).toBeLessThan(3);
    expect((await colony.segments.segmentSource(tick, { agentId: "other" })).files).toBe(0);
    await agent.store.close();
    await colony.store.close();
    const again = await openColony(engine, folder.file("colony"));
    expect(await counts(again)).toEqual({ rows: 50, distinct: 50 });
    expect(await again.store.gaps()).toEqual([]);
    await again.store.close();
  });

  it("publishes a view for user SQL that does not expose file paths", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    expect((await sqlOf(colony, "SELECT count(*) AS n FROM tick")).rows).toEqual([[0]]);
    await put(agent, 12, 0);
    await pull(agent, colony);
    const sql =
      "SELECT agent_id, trace_id, count(*) AS n FROM tick WHERE time >= TIMESTAMP '2026-01-01' GROUP BY ALL ORDER BY trace_id LIMIT 1";
    const { rows, views } = await sqlOf(colony, sql);
    expect(rows).toEqual([["a1", [0, 1, 2, 3].map(traceOf).sort()[0], 3]]);
    expect(views).toEqual(["tick"]);
    expect((await sqlOf(colony, `SELECT count(*) FROM tick WHERE trace_id = '${traceOf(1)}' AND time < now()`)).rows).toEqual([[3]]);
    expect((await sqlOf(colony, "SELECT count(*) FROM tick WHERE time > TIMESTAMP '2026-01-01 01:00'")).rows).toEqual([[0]]);
    expect(await colony.store.query("SELECT count(*) AS n FROM tick")).toEqual([{ n: 0 }]);
    for (const refused of [
      "SELECT getvariable('segment_files_tick')",
      "SELECT filename FROM tick",
      `SELECT * FROM read_parquet('${folder.file("colony/segments/tick/*.parquet")}')`,
    ]) {
      await expect(sqlOf(colony, refused)).rejects.toThrow();
    }
    expect((await sqlOf(colony, "DESCRIBE tick")).rows).toContainEqual(["trace_id", "VARCHAR", expect.any(String)]);
    await agent.store.close();
    await colony.store.close();
  });

  it("records missing rows in the gap ledger", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    for (let index = 0; index < 3; index++) {
      await put(agent, 10 + index, index * 20);
      agent.clock.pass(1_900_000);
    }
    await agent.store.prune();
    expect(await pull(agent, colony)).toEqual({ storedRows: 12, lostRows: 21 });
    await put(agent, 5, 100);
    agent.clock.pass(3_700_000);
    await agent.store.prune();
    expect(await pull(agent, colony)).toEqual({ storedRows: 0, lostRows: 5 });
    await put(agent, 6, 200);
    expect(await pull(agent, colony)).toEqual({ storedRows: 6, lostRows: 0 });
    expect((await colony.store.gaps()).map(({ reason, rows }) => [reason, rows]).sort()).toEqual([
      ["before-first-pull", 21],
      ["pruned", 5],
    ]);
    await agent.store.close();
    await colony.store.close();
  });

  it("counts a segment that was damaged at the agent only once", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const first = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    for (let index = 0; index < 3; index++) await put(first, 10, index * 10);
    await first.store.close();
    truncateSync(folder.file("segments/tick/000000002.parquet"), 50);
    const agent = await openAgent(engine, folder.path);
    expect(agent.store.losses()).toEqual([{ signal: "tick", reason: "segment-damaged", rows: 10 }]);
    expect(await pull(agent, colony)).toEqual({ storedRows: 20, lostRows: 0 });
    await agent.store.close();
    await colony.store.close();
  });

  it("stores each row once when an agent loses its database and with it the pull progress", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    const agent = await openAgent(engine, folder.path);
    await put(agent, 10, 0);
    await pull(agent, colony);
    await put(agent, 20, 10);
    // The agent would learn of this pull from the next one, which never happens.
    await pull(agent, colony);
    await put(agent, 5, 30);
    await agent.store.close();
    writeFileSync(folder.file("agent.duckdb.corrupt"), "a block is damaged");
    const again = await openAgent(engine, folder.path);
    expect(again.segments.listAfter("tick", 0, 9).entries.map(({ number }) => number)).toEqual([2, 3]);
    await pull(again, colony);
    expect(await counts(colony)).toEqual({ rows: 35, distinct: 35 });
    expect(await colony.store.gaps()).toEqual([]);
    await pull(again, colony);
    expect(await counts(colony)).toEqual({ rows: 35, distinct: 35 });
    await again.store.close();
    await colony.store.close();
  });

  it("uses at most a fifth more than its limit, including files of removed segments", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const maxBytes = 256 * 1024;
    const colony = await openColony(engine, folder.file("colony"), { maxBytes, unlinkDelayMs: 60_000 });
    let most = 0;
    for (let index = 0; index < 40; index++) {
      await put(agent, 500, index * 500);
      await pull(agent, colony);
      most = Math.max(most, bytesBelow(folder.file("colony/segments")));
    }
    expect(most).toBeGreaterThan(maxBytes * 0.8);
    expect(most).toBeLessThanOrEqual(maxBytes * 1.2);
    await agent.store.close();
    await colony.store.close();
  });

  it("records the rows lost with a new epoch", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const first = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    for (let index = 0; index < 3; index++) await put(first, 10, index * 10);
    await pull(first, colony, { upTo: 1 });
    await first.store.close();
    for (const name of readdirSync(folder.path)) if (name !== "colony") rmSync(folder.file(name), { recursive: true });
    const second = await openAgent(engine, folder.path);
    await put(second, 4, 50);
    expect(await pull(second, colony)).toEqual({ storedRows: 4, lostRows: 20 });
    expect(await counts(colony)).toEqual({ rows: 14, distinct: 14 });
    expect(await colony.store.gaps()).toMatchObject([{ reason: "epoch-changed", rows: 20, signal: "tick" }]);
    await second.store.close();
    await colony.store.close();
  });

  it("replaces parts with their merged segment", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    for (let index = 0; index < 20; index++) await put(agent, 3, index * 3);
    // The colony has five of them, while the agent believes it has all: as if the colony's last commits were lost.
    await pull(agent, colony, { upTo: 5 });
    agent.segments.listAfter("tick", 20, 100);
    await agent.store.prune();
    expect(agent.segments.stats()["tick"]?.files).toBe(1);
    await put(agent, 3, 60);
    await pull(agent, colony);
    expect(await counts(colony)).toEqual({ rows: 63, distinct: 63 });
    expect(colony.segments.stats()["tick"]).toMatchObject({ files: 2, rows: 63 });
    expect(await colony.store.gaps()).toEqual([]);
    await agent.store.close();
    await colony.store.close();
    const again = await openColony(engine, folder.file("colony"));
    expect(await counts(again)).toEqual({ rows: 63, distinct: 63 });
    await again.store.close();
  });

  it("adopts existing files into a new database, and pulls what follows", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const first = await openColony(engine, folder.file("colony"));
    for (let index = 0; index < 25; index++) await put(agent, 4, index * 4);
    await pull(agent, first);
    await first.store.prune();
    expect(first.segments.stats()["tick"]).toMatchObject({ files: 1, rows: 100 });
    await put(agent, 4, 100);
    await pull(agent, first);
    await first.store.close();
    for (const name of ["colony.duckdb", "colony.duckdb.wal"]) rmSync(join(folder.file("colony"), name), { force: true });
    const damaged = join(folder.file("colony"), `segments/tick/a2~other/000000001.parquet`);
    mkdirSync(dirname(damaged), { recursive: true });
    writeFileSync(damaged, "PAR1 what is this PAR1");

    const again = await openColony(engine, folder.file("colony"));
    expect(again.store.opened.how).toBe("created");
    expect(await counts(again)).toEqual({ rows: 104, distinct: 104 });
    expect((await again.segments.segmentSource(tick, { lookup: traceOf(34) })).files).toBe(1);
    expect(existsSync(`${damaged}.damaged`)).toBe(true);
    await put(agent, 4, 104);
    expect(await pull(agent, again)).toEqual({ storedRows: 4, lostRows: 0 });
    expect(await counts(again)).toEqual({ rows: 108, distinct: 108 });
    expect(await again.store.gaps()).toEqual([]);
    // From here on, missing segments count as gaps again.
    await put(agent, 4, 108);
    agent.clock.pass(3 * 3_600_000);
    await agent.store.prune();
    await put(agent, 4, 112);
    await again.store.close();
    const third = await openColony(engine, folder.file("colony"));
    expect(await counts(third)).toEqual({ rows: 108, distinct: 108 });
    expect(await pull(agent, third)).toEqual({ storedRows: 4, lostRows: 4 });
    await agent.store.close();
    await third.store.close();
  });

  it("finds a corrupt segment after failed user SQL", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    for (let index = 0; index < 3; index++) await put(agent, 500, index * 500);
    await pull(agent, colony);
    const file = folder.file(`colony/segments/tick/a1~${agent.store.epoch}/000000002.parquet`);
    const bytes = readFileSync(file);
    bytes.fill(0x5a, 4, bytes.length - 2_000);
    writeFileSync(file, bytes);
    const sql = "SELECT count(*), max(hash(tick)) IS NOT NULL FROM tick";
    await expect(sqlOf(colony, sql)).rejects.toThrow();
    await colony.store.prune();
    expect((await sqlOf(colony, sql)).rows).toEqual([[1_000, true]]);
    expect(await colony.store.gaps()).toMatchObject([{ reason: "colony-damaged", rows: 500 }]);
    await agent.store.close();
    await colony.store.close();
  });

  it("merges small neighbours and removes expired segments", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    for (let index = 0; index < 20; index++) await put(agent, 3, index * 3);
    await pull(agent, colony);
    await colony.store.prune();
    expect(colony.segments.stats()["tick"]).toMatchObject({ files: 1, rows: 60 });
    expect(await counts(colony)).toEqual({ rows: 60, distinct: 60 });
    await expect
      .poll(() => readdirSync(folder.file(`colony/segments/tick/a1~${agent.store.epoch}`)))
      .toEqual(["000000001-000000020.parquet"]);
    colony.clock.pass(7_200_001);
    await colony.store.prune();
    expect(await counts(colony)).toEqual({ rows: 0, distinct: 0 });
    expect(await pull(agent, colony)).toEqual({ storedRows: 0, lostRows: 0 });
    await agent.store.close();
    await colony.store.close();
  });

  it("does not merge segments that are small on disk and large in memory", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    const body = "trace of a stack ".repeat(1_000);
    for (let index = 0; index < 40; index++) {
      const rows = tickRows(index < 20 ? 100 : 3, index * 100);
      await agent.segments.append("tick", tickBody(index < 20 ? rows.map((row) => ({ ...row, body })) : rows));
      await agent.segments.flush();
    }
    await pull(agent, colony);
    for (let round = 0; round < 3; round++) await colony.store.prune();
    expect(colony.segments.stats()["tick"]).toMatchObject({ files: 21, rows: 2_060 });
    expect(await counts(colony)).toMatchObject({ rows: 2_060 });
    await agent.store.close();
    await colony.store.close();
  });

  it("rejects bytes that differ from the offer, and invalid segments", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const colony = await openColony(engine, folder.file("colony"));
    const fileOf = (signal: Parameters<typeof encodeParquet>[0], rows = 5): Buffer =>
      Buffer.concat(encodeParquet(signal, batchFromSegmentRows(tick, tickRows(rows))).parts);
    const offerOf = (bytes: Uint8Array): SegmentOffer => ({
      signal: "tick",
      firstNumber: 1,
      number: 1,
      rowsBefore: 0,
      rows: 5,
      sizeBytes: bytes.length,
      minTimeUs: 0,
      maxTimeUs: 1,
      services: null,
      schemaVersion: 1,
      sha256: createHash("sha256").update(bytes).digest("hex"),
      isLost: false,
    });
    const receive = (offer: SegmentOffer, bytes: Uint8Array, agentId = "a1") =>
      colony.segments.receive(
        agentId,
        "e1",
        offer,
        (async function* () {
          yield bytes;
        })(),
      );
    const good = fileOf(tick);
    const changed = Buffer.from(good);
    changed[200] = (changed[200] as number) ^ 1;
    await expect(receive(offerOf(good), changed)).rejects.toMatchObject({ code: "corrupt" });
    await expect(receive(offerOf(good), good.subarray(1))).rejects.toMatchObject({ code: "corrupt" });
    await expect(receive(offerOf(good), Buffer.concat([good, good]))).rejects.toMatchObject({ code: "corrupt" });
    await expect(receive({ ...offerOf(good), rows: 6 }, good)).rejects.toThrow("5 rows instead of 6");
    const garbage = Buffer.from("PAR1 and so on PAR1");
    await expect(receive(offerOf(garbage), garbage)).rejects.toMatchObject({ code: "invalid" });
    const { name: _, ...columns } = tick.columns;
    const other = fileOf(defineSegmentSignal({ ...tick, columns, lookup: "trace_id" }));
    await expect(receive(offerOf(other), other)).rejects.toThrow(`column "name" is missing`);
    const retyped = fileOf(defineSegmentSignal({ ...tick, columns: { ...tick.columns, amount: "time" }, lookup: "trace_id" }));
    await expect(receive({ ...offerOf(retyped), schemaVersion: 9 }, retyped)).rejects.toThrow(`column "amount" is TIMESTAMP, not BIGINT`);
    await expect(receive(offerOf(good), good, "../a1")).rejects.toMatchObject({ code: "invalid" });
    await expect(receive({ ...offerOf(good), signal: "../tick" }, good)).rejects.toMatchObject({ code: "invalid" });
    await expect(receive({ ...offerOf(good), sizeBytes: 1e12 }, good)).rejects.toMatchObject({ code: "invalid" });
    expect(readdirSync(folder.file("colony/segments/tick/a1~e1"))).toEqual([]);
    await colony.store.close();
  });

  it("reconciles files at start: removes orphans, turns damaged files into gaps", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const agent = await openAgent(engine, folder.path);
    const first = await openColony(engine, folder.file("colony"));
    for (let index = 0; index < 3; index++) await put(agent, 10, index * 10);
    await pull(agent, first);
    await first.store.close();
    const source = folder.file(`colony/segments/tick/a1~${agent.store.epoch}`);
    writeFileSync(join(source, "000000009.parquet"), "left by a crash");
    writeFileSync(join(source, "000000010.parquet.tmp"), "left by a crash");
    truncateSync(join(source, "000000002.parquet"), readFileSync(join(source, "000000002.parquet")).length - 1);
    const colony = await openColony(engine, folder.file("colony"));
    expect(await counts(colony)).toEqual({ rows: 20, distinct: 20 });
    expect(readdirSync(source)).toEqual(["000000001.parquet", "000000002.parquet.damaged", "000000003.parquet"]);
    expect(await colony.store.gaps()).toMatchObject([{ reason: "colony-damaged", rows: 10 }]);
    await agent.store.close();
    await colony.store.close();
  });
});
