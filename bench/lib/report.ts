/** Prints a benchmark's figures and writes them as JSON, next to the reference figures in git. */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Spread, spreadOf } from "./spread.ts";

/** The repository root; a benchmark's bundle is in build/. */
export const root = fileURLToPath(new URL("../..", import.meta.url));

/** One measured value with its spread and target. */
export interface Figure extends Spread {
  name: string;
  /** `×` is a ratio to the baseline of the same run. */
  unit: "×" | "ms" | "s" | "rows/s" | "MB/s" | "rows" | "MiB" | "B" | "cores" | "%" | "µs" | "requests" | "requests/s";
  /** Target for the median; with `strict`, for the worst value too. */
  target?: { kind: "at-most" | "at-least" | "below"; value: number };
}

/** The file that a benchmark writes to bench/results. */
export interface BenchmarkResult {
  name: string;
  /** Size of the run: rows, rounds, seconds. */
  sizes: Record<string, number>;
  figures: readonly Figure[];
  /** Anything worth keeping that is not a figure. */
  notes?: readonly string[];
}

interface StoredResult extends BenchmarkResult {
  at: string;
  machine: Record<string, string | number>;
  load: { before: number; after: number };
}

/** For testing a benchmark: a fraction of the work, with unreliable figures. */
export const isSmall = process.env["CORAL_BENCH_SMALL"] === "1";

const loadBefore = loadavg()[0] ?? 0;
/** Above this load something else is running, and absolute figures are unreliable. */
const quietLoad = 0.7;

export function figureOf(name: string, unit: Figure["unit"], value: Spread | readonly number[], target?: Figure["target"]): Figure {
  const spread = "median" in value ? value : spreadOf(value);
  return { name, unit, ...spread, ...(target ? { target } : {}) };
}

/** A single measurement. */
export function single(value: number): Spread {
  return { median: value, min: value, max: value };
}

/** Undefined for a figure without a target. */
export function isMet({ median, target }: Figure): boolean | undefined {
  if (!target) return undefined;
  if (target.kind === "at-least") return median >= target.value;
  return target.kind === "below" ? median < target.value : median <= target.value;
}

/** A missed target is shown but does not fail: the machine may be busy. Wrong results, such as a lost row, throw earlier. */
export function report(result: BenchmarkResult): void {
  const stored: StoredResult = {
    ...result,
    at: new Date().toISOString(),
    machine: machine(),
    load: { before: loadBefore, after: loadavg()[0] ?? 0 },
  };
  const reference = readReference(result.name);
  const rows = result.figures.map((figure) => {
    const old = reference?.figures.find(({ name }) => name === figure.name);
    return [
      figure.name,
      format(figure.median, figure.unit),
      range(figure),
      aim(figure),
      verdict(figure),
      old ? format(old.median, old.unit) : "",
    ];
  });
  print([["", "median", "min – max [quartiles]", "target", "", "reference"], ...rows]);
  for (const note of result.notes ?? []) process.stdout.write(`  ${note}\n`);
  if (loadBefore > quietLoad) {
    process.stdout.write(`  The machine was busy before the run (load ${loadBefore.toFixed(2)}): compare ratios only.\n`);
  }
  if (isSmall) {
    process.stdout.write("  Small run (CORAL_BENCH_SMALL=1): not written.\n");
    return;
  }
  const directory = join(root, "bench/results");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, `${result.name}.json`), `${JSON.stringify(stored, undefined, 2)}\n`);
}

function readReference(name: string): StoredResult | undefined {
  const file = join(root, "bench/results/reference", `${name}.json`);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as StoredResult) : undefined;
}

function machine(): StoredResult["machine"] {
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryGib: Math.round(totalmem() / 1024 ** 3),
    kernel: release(),
    node: process.versions.node,
  };
}

function range({ min, max, quartiles, unit }: Figure): string {
  if (min === max) return "";
  const inner = quartiles ? ` [${format(quartiles[0], unit)} – ${format(quartiles[1], unit)}]` : "";
  return `${format(min, unit)} – ${format(max, unit)}${inner}`;
}

function aim({ target, unit }: Figure): string {
  if (!target) return "";
  return `${{ "at-most": "≤", "at-least": "≥", below: "<" }[target.kind]} ${format(target.value, unit)}`;
}

function verdict(figure: Figure): string {
  const met = isMet(figure);
  return met === undefined ? "" : met ? "met" : "MISSED";
}

function format(value: number, unit: Figure["unit"]): string {
  const isCount = unit === "rows" || unit === "rows/s" || unit === "requests" || unit === "requests/s";
  const digits = isCount || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  const text = value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return unit === "×" ? `${text}×` : `${text} ${unit}`;
}

function print(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  for (const row of rows) {
    const cells = row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)));
    process.stdout.write(`  ${cells.join("  ").trimEnd()}\n`);
  }
}
