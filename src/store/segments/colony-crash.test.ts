import { once } from "node:events";
import { mkdirSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { openColonyStore } from "../colony/colony-store.ts";
import { spawnProgram, temporaryFolder, testEngine } from "../store.fixture.ts";
import type { ColonySegments } from "./colony-segments.ts";
import type { CrashPoint } from "./crash-points.ts";
import { tick } from "./segment.fixture.ts";

const mebibyte = 1024 ** 2;

/**
 * Pulls twenty segments of ten rows from an agent's store and commits each after `ahead` more have been received. Kills itself when a crash
 * point is reached for the n-th time.
 */
const program = `
  const { openEngine } = await import("./engine/engine.ts");
  const { openAgentStore } = await import("./agent/agent-store.ts");
  const { openColonyStore } = await import("./colony/colony-store.ts");
  const { silentLogger } = await import("../base/log.ts");
  const { systemClock } = await import("../base/clock.ts");
  const { sealTicks, tick, tickBody, tickRows } = await import("./segments/segment.fixture.ts");
  const [folder, point, times, ahead] = process.argv.slice(2);
  let left = Number(times);
  const crashPoints = { reached(reached) { if (reached === point && --left === 0) process.kill(process.pid, "SIGKILL"); } };
  const engine = await openEngine({ dataDirectories: [folder], memoryLimitBytes: 256 * 1024 ** 2, threads: 1, log: silentLogger });
  const common = { signals: [], maxBytes: 64 * 1024 ** 2, clock: systemClock, log: silentLogger };
  const agent = await openAgentStore(engine, {
    ...common, file: folder + "/agent.duckdb", segments: { signals: [tick], directory: folder, maxBytes: 64 * 1024 ** 2, seal: sealTicks },
  });
  const signal = point === "prune-committed" ? { ...tick, retention: { ...tick.retention, colony: { maxAgeMs: 1, weight: 1 } } } : tick;
  const colony = await openColonyStore(engine, {
    ...common, file: folder + "/colony/colony.duckdb",
    segments: { signals: [signal], directory: folder + "/colony", maxBytes: 64 * 1024 ** 2, crashPoints },
  });
  const after = colony.segments.checkpoints("a1", agent.epoch).get("tick");
  if (agent.segments.listAfter("tick", 0, 1).lastNumber === 0) {
    for (let index = 0; index < 20; index++) {
      await agent.segments.append("tick", tickBody(tickRows(10, index * 10)));
      await agent.segments.flush();
    }
  }
  const { entries, lastNumber, totalRows } = agent.segments.listAfter("tick", after, 100);
  const commit = (offer) =>
    colony.segments.commit({ agentId: "a1", epoch: agent.epoch, signals: [{ signal: "tick", lastNumber, totalRows, offers: [offer], isAll: false }] });
  const received = [];
  for (const entry of entries) {
    const offer = { ...entry, isLost: false };
    await colony.segments.receive("a1", agent.epoch, offer, agent.segments.read("tick", entry.number, 0));
    received.push(offer);
    if (received.length > Number(ahead)) await commit(received.shift());
  }
  for (const offer of received) await commit(offer);
  await colony.prune();
  await colony.close();
  await agent.close();
  await engine.close();
`;

async function run(folder: string, point: CrashPoint | "never", times: number, ahead = 0): Promise<NodeJS.Signals | null> {
  const child = spawnProgram(program, folder, [folder, point, String(times), String(ahead)]);
  const [, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  return signal;
}

async function found(folder: string): Promise<{ rows: number; distinct: number; tidy: boolean; gaps: number }> {
  await using engine = await testEngine(folder);
  const store = await openColonyStore(engine, {
    file: `${folder}/colony/colony.duckdb`,
    signals: [],
    maxBytes: 64 * mebibyte,
    clock: systemClock,
    log: silentLogger,
    segments: { signals: [tick], directory: `${folder}/colony`, maxBytes: 64 * mebibyte },
  });
  const segments = store.segments as ColonySegments;
  const { sql } = await segments.segmentSource(tick);
  const [row] = await store.query(`SELECT count(*) AS rows, count(DISTINCT span_id) AS spans FROM ${sql}`);
  const files = readdirSync(`${folder}/colony/segments/tick`, { recursive: true }).filter(
    (name) => /0\d+\.parquet/.test(String(name)) || String(name).endsWith(".tmp"),
  );
  const gaps = (await store.gaps()).length;
  await store.close();
  return { rows: Number(row?.["rows"]), distinct: Number(row?.["spans"]), tidy: files.length === segments.stats()["tick"]?.files, gaps };
}

describe("openColonySegments() after kill -9", () => {
  it.each<[CrashPoint, number, number]>([
    ["pull-written", 1, 0],
    ["pull-written", 5, 40],
    ["pull-renamed", 1, 0],
    ["pull-renamed", 7, 60],
    ["pull-committed", 1, 10],
    ["pull-committed", 4, 40],
    ["merge-written", 1, 200],
    ["merge-renamed", 1, 200],
    ["merge-committed", 1, 200],
  ])("at %s (%i) keeps what it committed, and pulls the rest", async (point, times, committed) => {
    using folder = temporaryFolder();
    mkdirSync(folder.file("colony"));
    expect(await run(folder.path, point, times)).toBe("SIGKILL");
    expect(await found(folder.path)).toEqual({ rows: committed, distinct: committed, tidy: true, gaps: 0 });
    expect(await run(folder.path, "never", 1)).toBe(null);
    expect(await found(folder.path)).toEqual({ rows: 200, distinct: 200, tidy: true, gaps: 0 });
  });

  it.each<[CrashPoint, number, number]>([
    ["pull-written", 5, 10],
    ["pull-renamed", 7, 30],
    ["pull-committed", 4, 40],
  ])("at %s (%i) with three uncommitted segments keeps what it committed, and pulls the rest", async (point, times, committed) => {
    using folder = temporaryFolder();
    mkdirSync(folder.file("colony"));
    expect(await run(folder.path, point, times, 3)).toBe("SIGKILL");
    expect(await found(folder.path)).toEqual({ rows: committed, distinct: committed, tidy: true, gaps: 0 });
    expect(await run(folder.path, "never", 1, 3)).toBe(null);
    expect(await found(folder.path)).toEqual({ rows: 200, distinct: 200, tidy: true, gaps: 0 });
  });

  it("at prune-committed leaves no file behind", async () => {
    using folder = temporaryFolder();
    mkdirSync(folder.file("colony"));
    expect(await run(folder.path, "prune-committed", 1)).toBe("SIGKILL");
    expect((await found(folder.path)).tidy).toBe(true);
  });
});
