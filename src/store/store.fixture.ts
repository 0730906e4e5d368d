/** Helpers shared by this room's tests. Not exported by an index. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Clock } from "../base/clock.ts";
import { silentLogger } from "../base/log.ts";
import { type Engine, openEngine } from "./engine/engine.ts";
import { defineSignal, type RowOf } from "./signals/define-signal.ts";

const mebibyte = 1024 ** 2;
const hourMs = 3_600_000;

/** A directory that is removed at the end of the scope: `using folder = temporaryFolder()`. */
export function temporaryFolder(): { path: string; file: (name: string) => string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), "coral-store-"));
  return { path, file: (name) => join(path, name), [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

export function testEngine(...dataDirectories: string[]): Promise<Engine> {
  return openEngine({ dataDirectories, memoryLimitBytes: 256 * mebibyte, threads: 2, log: silentLogger });
}

/** Starts at 2026-01-01T00:00:00Z. Both clocks stand still until a test moves them. */
export class TestClock implements Clock {
  wall = Date.UTC(2026, 0, 1);
  monotonic = 1_000_000;

  wallMs = (): number => this.wall;
  monotonicMs = (): number => this.monotonic;

  pass(durationMs: number): void {
    this.wall += durationMs;
    this.monotonic += durationMs;
  }

  /** Like setting the clock: monotonic time does not move. */
  step(durationMs: number): void {
    this.wall += durationMs;
  }
}

/** A signal with every kind of column. */
export const sample = defineSignal({
  name: "sample",
  description: "Rows for tests",
  columns: {
    label: "text",
    note: "text?",
    amount: "int",
    size: "int?",
    ratio: "float",
    share: "float?",
    flag: "bool",
    doubt: "bool?",
    seen: "time?",
    counts: "uints",
    extra: "uints?",
  },
  retention: { agent: { maxAgeMs: hourMs, weight: 1 }, colony: { maxAgeMs: 2 * hourMs, weight: 1 } },
  rollup: {
    keys: ["label"],
    measures: { amount: ["sum", "min", "max", "avg", "last"], ratio: ["avg", "max"], share: ["avg", "last"], size: ["min"] },
  },
});

export type SampleRow = RowOf<(typeof sample)["columns"]>;

/** Distinct for every index, with nulls, short, long and non-ASCII texts, and empty lists. */
export function sampleRow(index: number, atUs: number): SampleRow {
  return {
    at: atUs,
    mono_ms: index + 0.25,
    label: `label-${index % 3}`,
    note: index % 4 === 0 ? null : index % 4 === 1 ? "" : `überlang ${"x".repeat(index % 40)} ${index}`,
    amount: index - 5,
    size: index % 5 === 0 ? null : index * 1_000_003,
    ratio: index / 7,
    share: index % 3 === 0 ? null : -index / 3,
    flag: index % 2 === 0,
    doubt: index % 6 === 0 ? null : index % 2 === 1,
    seen: index % 7 === 0 ? null : atUs - 5,
    counts: Array.from({ length: index % 5 }, (_, at) => index + at),
    extra: index % 8 === 0 ? null : [4_294_967_295, index],
  };
}

export function sampleRows(count: number, atUs: (index: number) => number, first = 0): SampleRow[] {
  return Array.from({ length: count }, (_, index) => sampleRow(first + index, atUs(first + index)));
}

/** A small seeded random number generator: 0 to 1. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 4_294_967_296;
  };
}

/**
 * Runs the body of an async TypeScript function in a separate process. The body imports with `await import("./x.ts")`, relative to this
 * folder, and DuckDB with `require`. It is bundled because Node 20 cannot run TypeScript.
 */
export function spawnProgram(body: string, folder: string, args: readonly string[]): ChildProcess {
  const root = resolve(import.meta.dirname, "../..");
  const script = join(folder, "program.cjs");
  const flags = ["--bundle", "--platform=node", "--format=cjs", "--loader=ts", "--external:@duckdb/*", `--outfile=${script}`];
  const input = `void (async () => {${body}})();`;
  execFileSync(join(root, "node_modules/.bin/esbuild"), [...flags, "--log-level=error"], { cwd: import.meta.dirname, input });
  return spawn(process.execPath, [script, ...args], {
    env: { ...process.env, NODE_PATH: join(root, "node_modules") },
    stdio: ["ignore", "pipe", "inherit"],
  });
}

export type SmallDisk = { path: string; resize: (sizeBytes: number) => void } & Disposable;

/** A small file system, or the reason why there is none. Needs permission to mount. */
export function smallDisk(sizeBytes: number): SmallDisk | string {
  const path = mkdtempSync(join(tmpdir(), "coral-disk-"));
  const mount = (options: string): void => {
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", path], { stdio: "pipe" });
  };
  try {
    mount(`size=${sizeBytes}`);
  } catch (error) {
    rmSync(path, { recursive: true });
    return `cannot mount a small file system: ${error instanceof Error ? error.message.split("\n").at(-1) : String(error)}`;
  }
  return {
    path,
    resize: (size) => mount(`remount,size=${size}`),
    [Symbol.dispose]: () => {
      execFileSync("umount", [path]);
      rmSync(path, { recursive: true });
    },
  };
}
