import { closeSync, copyFileSync, mkdtempSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../base/clock.ts";
import { createLogger } from "../base/log.ts";
import { type AgentStore } from "../store/agent/index.ts";
import { type Engine, openEngine } from "../store/engine/index.ts";
import { hostProcess } from "../store/signals/index.ts";
import { openRecoveringStore } from "./recovering-store.ts";

const log = createLogger("test", "error", () => undefined);
const limits = { maxBytes: 64 * 1024 * 1024, maxRows: 100_000 };

let directory: string;
let engine: Engine;
let renewals: number;
let stored: number;
let refusals: string[];

function open(): Promise<AgentStore> {
  const file = join(directory, "agent.duckdb");
  const callbacks = {
    onReplaced: () => renewals++,
    onStored: () => stored++,
    onRefused: (_signal: string, { code }: { code: string }) => refusals.push(code),
  };
  return openRecoveringStore(engine, { file, signals: [hostProcess], maxBytes: 64 * 1024 * 1024, clock: systemClock, log, ...callbacks });
}

function row(number: number) {
  const identity = { pid: number, start_ticks: number, name: `row-${number}`, exe: null, user_id: 0, cgroup: null };
  const figures = { state: "S", cpu_cores: 0, rss_bytes: 0, threads: 1, open_files: null, major_faults_per_s: 0 };
  return { at: 1_000 + number, mono_ms: number, ...identity, ...figures };
}

/** Overwrites bytes in one block after another until reading rows fails; the file still opens. */
async function openWithBadBlock(): Promise<AgentStore> {
  const file = join(directory, "agent.duckdb");
  const whole = join(directory, "whole");
  copyFileSync(file, whole);
  for (let offset = 5_000; offset < statSync(whole).size; offset += 16_384) {
    copyFileSync(whole, file);
    const descriptor = openSync(file, "r+");
    writeSync(descriptor, Buffer.alloc(64, 0xa5), 0, 64, offset);
    closeSync(descriptor);
    const store = await open();
    if (store.opened.how === "existing") {
      const failure = await store.readAfter("host_process", 0, limits).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (failure !== undefined) {
        expect(failure).toMatchObject({ code: "corrupt" });
        return store;
      }
    }
    await store.close();
    for (const name of readdirSync(directory)) if (name !== "whole") rmSync(join(directory, name));
  }
  throw new Error("no block holds rows");
}

describe("openRecoveringStore()", () => {
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), "coral-heal-"));
    renewals = 0;
    stored = 0;
    refusals = [];
    engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 64 * 1024 * 1024, threads: 1, log });
  });
  afterEach(async () => {
    await engine.close();
    rmSync(directory, { recursive: true, force: true });
  });

  it("starts a new epoch when a block is damaged, and keeps the damaged file", async () => {
    const before = await open();
    const rows = Array.from({ length: 5_000 }, (_, index) => row(index));
    await before.append(hostProcess, rows);
    const { epoch } = before;
    await before.close();
    const store = await openWithBadBlock();
    expect(store.epoch).toBe(epoch);
    // Concurrent uses after the detection: one recovers the store, and none fails.
    const [range] = await Promise.all([store.append(hostProcess, [row(1)]), store.stats(), store.query("SELECT 1")]);
    expect(range).toEqual({ firstSeq: 1, lastSeq: 1 });
    expect(renewals).toBe(1);
    expect(store.epoch).not.toBe(epoch);
    expect(store.opened).toMatchObject({ how: "recovered", reason: expect.stringContaining("checksum") });
    expect(readdirSync(directory).filter((name) => name.startsWith("agent.duckdb.damaged-"))).not.toEqual([]);
    expect((await store.readAfter("host_process", 0, limits)).batch?.rows).toBe(1);
    await store.close();
    const again = await open();
    expect(again.epoch).toBe(store.epoch);
    await again.close();
  });

  it("rethrows other failures and keeps the store", async () => {
    const store = await open();
    const { epoch } = store;
    await expect(store.query("SELECT nonsense FROM nowhere")).rejects.toMatchObject({ code: "invalid" });
    await expect(store.readAfter("unknown", 0, limits)).rejects.toMatchObject({ code: "not-found" });
    await store.append(hostProcess, [row(1)]);
    expect(store.epoch).toBe(epoch);
    expect(renewals).toBe(0);
    await store.append(hostProcess, []);
    expect([stored, refusals]).toEqual([1, []]);
    await store.close();
    await expect(store.append(hostProcess, [row(2)])).rejects.toMatchObject({ code: "unavailable" });
    expect([stored, refusals]).toEqual([1, ["unavailable"]]);
  });
});
