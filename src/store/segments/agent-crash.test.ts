import { once } from "node:events";
import { readdirSync, statSync, truncateSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { openAgentStore } from "../agent/agent-store.ts";
import { spawnProgram, TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import type { AgentSegments } from "./agent-segments.ts";
import type { CrashPoint } from "./crash-points.ts";
import { sealTicks, tick } from "./segment.fixture.ts";

const mebibyte = 1024 ** 2;

/**
 * Appends bodies of ten rows, one segment each, and kills itself when a crash point is reached for the n-th time. Prints acknowledged row
 * counts.
 */
const program = `
  const { openEngine } = await import("./engine/engine.ts");
  const { openAgentStore } = await import("./agent/agent-store.ts");
  const { silentLogger } = await import("../base/log.ts");
  const { systemClock } = await import("../base/clock.ts");
  const { sealTicks, tick, tickBody, tickRows } = await import("./segments/segment.fixture.ts");
  const [folder, point, times] = process.argv.slice(2);
  let left = Number(times);
  const crashPoints = { reached(reached) { if (reached === point && --left === 0) process.kill(process.pid, "SIGKILL"); } };
  const engine = await openEngine({ dataDirectories: [folder], memoryLimitBytes: 256 * 1024 ** 2, threads: 1, log: silentLogger });
  const hour = 3_600_000;
  const signal = point === "prune-committed" ? { ...tick, retention: { ...tick.retention, agent: { maxAgeMs: 1, weight: 1 } } } : tick;
  const store = await openAgentStore(engine, {
    file: folder + "/agent.duckdb", signals: [], maxBytes: 64 * 1024 ** 2, clock: systemClock, log: silentLogger,
    segments: { signals: [signal], directory: folder, maxBytes: 64 * 1024 ** 2, seal: sealTicks, cut: { rows: 10, ageMs: 60_000 }, crashPoints },
  });
  for (let index = 0; index < 40; index++) {
    await store.segments.append("tick", tickBody(tickRows(10, index * 10)));
    require("node:fs").writeSync(1, "10\\n");
    if (index % 2 === 1) await store.segments.flush();
  }
  await store.segments.flush();
  if (point.startsWith("merge")) store.segments.listAfter("tick", 40, 1);
  await store.prune();
  await store.close();
  await engine.close();
`;

async function crash(folder: string, point: CrashPoint, times: number): Promise<{ acknowledged: number; wasKilled: boolean }> {
  const child = spawnProgram(program, folder, [folder, point, String(times)]);
  let acknowledged = 0;
  child.stdout?.on("data", (chunk: Buffer) => {
    acknowledged +=
      chunk
        .toString()
        .split("\n")
        .filter((line) => line !== "").length * 10;
  });
  const [, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  return { acknowledged, wasKilled: signal === "SIGKILL" };
}

/** The rows that a new process finds, and the files left in its directories. */
async function found(folder: string): Promise<{ rows: number; distinct: number; tidy: boolean }> {
  await using engine = await testEngine(folder);
  const store = await openAgentStore(engine, {
    file: `${folder}/agent.duckdb`,
    signals: [],
    maxBytes: 64 * mebibyte,
    clock: new TestClock(),
    log: silentLogger,
    segments: { signals: [tick], directory: folder, maxBytes: 64 * mebibyte, seal: sealTicks },
  });
  const segments = store.segments as AgentSegments;
  await segments.flush();
  const { sql } = await segments.segmentSource(tick);
  const [row] = await store.query(`SELECT count(*) AS rows, count(DISTINCT span_id) AS spans FROM ${sql}`);
  const files = readdirSync(`${folder}/segments/tick`).filter((name) => !name.startsWith("empty"));
  const tidy = readdirSync(`${folder}/wal/tick`).length === 0 && files.length === segments.stats()["tick"]?.files;
  expect(store.losses()).toEqual([]);
  await store.close();
  return { rows: Number(row?.["rows"]), distinct: Number(row?.["spans"]), tidy };
}

describe("openAgentSegments() after kill -9", () => {
  it.each<[CrashPoint, number]>([
    ["body-written", 1],
    ["body-written", 7],
    ["file-cut", 1],
    ["file-cut", 8],
    ["segment-written", 1],
    ["segment-written", 5],
    ["segment-renamed", 1],
    ["segment-renamed", 4],
    ["manifest-committed", 1],
    ["manifest-committed", 4],
    ["write-ahead-removed", 3],
    ["merge-written", 1],
    ["merge-renamed", 1],
    ["merge-committed", 1],
  ])("at %s (%i) keeps every acknowledged row exactly once", async (point, times) => {
    using folder = temporaryFolder();
    const { acknowledged, wasKilled } = await crash(folder.path, point, times);
    expect(wasKilled).toBe(true);
    const { rows, distinct, tidy } = await found(folder.path);
    expect(distinct).toBe(rows);
    // The body in flight at the kill may be stored too: it was not acknowledged, and its sender resends it.
    expect([acknowledged, acknowledged + 10]).toContain(rows);
    expect(tidy).toBe(true);
  });

  it("counts the rows of a torn record as lost", async () => {
    using folder = temporaryFolder();
    await crash(folder.path, "body-written", 7);
    const [file = ""] = readdirSync(`${folder.path}/wal/tick`).map((name) => `${folder.path}/wal/tick/${name}`);
    truncateSync(file, statSync(file).size - 5);
    await using engine = await testEngine(folder.path);
    const segments = { signals: [tick], directory: folder.path, maxBytes: 64 * mebibyte, seal: sealTicks };
    const options = { signals: [], maxBytes: 64 * mebibyte, clock: new TestClock(), log: silentLogger, segments };
    const store = await openAgentStore(engine, { file: `${folder.path}/agent.duckdb`, ...options });
    await store.segments?.flush();
    expect(store.losses()).toEqual([{ signal: "tick", reason: "torn-write-ahead", rows: 10 }]);
    await store.close();
    const again = await openAgentStore(engine, { file: `${folder.path}/agent.duckdb`, ...options });
    await again.segments?.flush();
    expect(again.losses()).toEqual([{ signal: "tick", reason: "torn-write-ahead", rows: 10 }]);
    await again.close();
  });

  it("at prune-committed leaves no file behind", async () => {
    using folder = temporaryFolder();
    expect((await crash(folder.path, "prune-committed", 1)).wasKilled).toBe(true);
    const { tidy, rows } = await found(folder.path);
    expect(tidy).toBe(true);
    expect(rows).toBeLessThan(400);
  });

  it("runs to the end when no crash point is hit", async () => {
    using folder = temporaryFolder();
    expect(await crash(folder.path, "file-cut", 1_000)).toEqual({ acknowledged: 400, wasKilled: false });
    expect(await found(folder.path)).toEqual({ rows: 400, distinct: 400, tidy: true });
  });
});
