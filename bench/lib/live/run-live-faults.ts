/** Starts the live world with a colony that observes it, and injects one fault after the other. */

import { bpfProblem } from "../request-watch.ts";
import { liveFaults } from "./faults/fault-list.ts";
import { LiveColony } from "./live-colony.ts";
import { LiveWorld, missingPrograms } from "./live-world.ts";
import { type LiveResult, watchFault } from "./watch-fault.ts";

/** Time until every route has a baseline: a minute that ended 90 seconds ago. */
const warmUpMs = 150_000;

/** Longer after the repair, a line says what lingers. */
const goneMaxMs = 60_000;

/** Results of all faults of one run. */
export interface LiveRun {
  /** Why no fault was injected. */
  skipped?: string;
  results: LiveResult[];
}

/** `only`: substrings of the names of faults to inject. No fault begins later than `maxMs` after the start. */
export async function runLiveFaults(seed: number, only: readonly string[], maxMs = Infinity): Promise<LiveRun> {
  const startMs = performance.now();
  const skipped = missingPrograms() ?? bpfProblem();
  if (skipped !== undefined) return { skipped, results: [] };
  const faults = liveFaults.filter(({ name }) => only.length === 0 || only.some((part) => name.includes(part)));
  await using colony = await LiveColony.start();
  await using world = await new LiveWorld(seed).start();
  progress(`world ${Object.entries(world.names).flat().join(" ")}; ${faults.length} faults after ${warmUpMs / 1_000} s`);
  await colony.wait(warmUpMs);
  const results: LiveResult[] = [];
  for (const fault of faults) {
    if (performance.now() - startMs > maxMs) {
      progress(`${fault.name}: not begun, ${Math.round(maxMs / 1_000)} s are over`);
      continue;
    }
    const result = await watchFault(world, colony, fault);
    progress(describeLive(result));
    results.push(result);
  }
  return { results };
}

export function describeLive({ name, skipped, foundMs, goneMs, accused, before, seen, left }: LiveResult): string {
  if (skipped !== undefined) return `${name}: skipped, ${skipped}`;
  const seconds = (ms: number | null): string => (ms === null ? "never" : `after ${Math.round(ms / 1_000)} s`);
  const others = accused.size === 0 ? "" : `; accused ${[...accused.values()].join(" | ")}`;
  const isLate = goneMs === null || goneMs > goneMaxMs;
  const earlier = before === "" ? "" : `; wrong before it ${before}`;
  return `${name}: found ${seconds(foundMs)}, gone ${seconds(goneMs)}; first line ${seen}${earlier}${others}${isLate ? `; last ${left}` : ""}`;
}

function progress(line: string): void {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}
