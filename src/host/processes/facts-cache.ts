/** Caches facts of processes until they exit or execute another program. */

import { type FactsRules, type FactsSources, type ProcessFacts, readProcessFacts, type SettledFacts } from "./process-facts.ts";
import { currentEntry, type ProcessEntry } from "./process-table.ts";

/** Facts are read again after so many scans: titles, groups and labels change. */
const factsScans = 20;

export interface FactsContext {
  rules: FactsRules;
  scan: number;
  /** Processes that started later are read again in the next scan. */
  youngAfterTicks: number;
}

/** Facts that a re-read keeps. Only the origin of a program in a container may change, when the runtime reports the container's name late. */
function settledIn({ origin, containerId, program }: ProcessFacts): SettledFacts {
  return { origin: origin.kind === "program" && containerId !== null ? undefined : origin, program: program ?? undefined };
}

export class FactsCache {
  readonly #sources: FactsSources;
  readonly #known = new Map<number, { facts: ProcessFacts; validUntil: number }>();
  #context: FactsContext | undefined;

  constructor(sources: FactsSources) {
    this.#sources = sources;
  }

  /** A scan begins; `removed` have ended since the last one. */
  begin(context: FactsContext, removed: readonly ProcessEntry[]): void {
    // New rules may change every name and every redaction.
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
    const known = this.#known.get(entry.pid);
    const isSame = known?.facts.entry.startTicks === entry.startTicks && known.facts.entry.execMark === entry.execMark;
    if (known && isSame && scan < known.validUntil) return known.facts;
    const isYoung = !isSame && entry.startTicks > youngAfterTicks;
    // Until it executes its program, a process has its parent's image, for which an environment is known.
    const image = isYoung ? currentEntry(this.#sources.root, entry) : entry;
    const read = readProcessFacts(this.#sources, image, rules, isSame && known ? settledIn(known.facts) : undefined);
    const facts = read && { ...read, entry };
    // Spread by pid, so that not all are re-read in the same scan.
    if (facts) this.#known.set(entry.pid, { facts, validUntil: scan + (isYoung ? 1 : factsScans + (entry.pid % factsScans)) });
    return facts;
  }
}
