/** Caches facts of processes until they exit or execute another program. */

import { type FactsRules, type FactsSources, type ProcessFacts, readProcessFacts, type SettledFacts } from "./process-facts.ts";
import type { ProcessEntry } from "./process-table.ts";

/** Facts are read again after so many scans: titles, groups and labels change. */
const factsScans = 20;

export interface FactsContext {
  rules: FactsRules;
  scan: number;
  /** Processes that started later are read again in the next scan. */
  youngAfterTicks: number;
}

/** A container's name may become known late; everything else is settled by the first reading. */
function settledIn({ origin, containerId, program }: ProcessFacts): SettledFacts {
  return { origin: origin.kind === "program" && containerId !== null ? undefined : origin, program: program ?? undefined };
}

export class FactsMemory {
  readonly #sources: FactsSources;
  readonly #known = new Map<number, { facts: ProcessFacts; validUntil: number }>();
  #context: FactsContext | undefined;

  constructor(sources: FactsSources) {
    this.#sources = sources;
  }

  /** A scan begins; `removed` have ended since the last one. */
  begin(context: FactsContext, removed: readonly ProcessEntry[]): void {
    // New rules may change every name and what is masked.
    if (this.#context?.rules !== context.rules) {
      this.#known.clear();
      this.#sources.environments?.clear();
    }
    this.#context = context;
    for (const { pid } of removed) this.#known.delete(pid);
  }

  /** Null when the process has ended. */
  of(entry: ProcessEntry | undefined): ProcessFacts | null {
    if (!entry || !this.#context) return null;
    const { rules, scan, youngAfterTicks } = this.#context;
    const memory = this.#known.get(entry.pid);
    const isSame = memory?.facts.entry.startTicks === entry.startTicks && memory.facts.entry.execMark === entry.execMark;
    if (memory && isSame && scan < memory.validUntil) return memory.facts;
    const facts = readProcessFacts(this.#sources, entry, rules, isSame && memory ? settledIn(memory.facts) : undefined);
    const isYoung = !isSame && entry.startTicks > youngAfterTicks;
    // Spread, so that not all are read again in the same scan.
    if (facts) this.#known.set(entry.pid, { facts, validUntil: scan + (isYoung ? 1 : factsScans + (entry.pid % factsScans)) });
    return facts;
  }
}
