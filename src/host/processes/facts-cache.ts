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

interface KnownFacts {
  facts: ProcessFacts;
  validUntil: number;
  /** Of a young process: the mark of the image that was read, which may be another soon. */
  youngMark: number | null;
}

export class FactsCache {
  readonly #sources: FactsSources;
  readonly #known = new Map<number, KnownFacts>();
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
    const current = known && isSame && this.#hasSameImage(known, entry) ? known : undefined;
    if (current && scan < current.validUntil) return current.facts;
    const isYoung = !current && entry.startTicks > youngAfterTicks;
    const settled = current && settledIn(current.facts);
    // Until it executes its program, a process has its parent's image, for which an environment is known.
    let image = isYoung ? currentEntry(this.#sources.root, entry) : entry;
    let read = readProcessFacts(this.#sources, image, rules, settled);
    const after = isYoung ? currentEntry(this.#sources.root, entry) : image;
    if (after.execMark !== image.execMark) {
      // It executed its program meanwhile: the facts are of both images.
      image = after;
      read = readProcessFacts(this.#sources, image, rules, settled);
    }
    const facts = read && { ...read, entry };
    // Spread by pid, so that not all are re-read in the same scan.
    const validUntil = scan + (isYoung ? 1 : factsScans + (entry.pid % factsScans));
    if (facts) this.#known.set(entry.pid, { facts, validUntil, youngMark: isYoung ? image.execMark : null });
    return facts;
  }

  /** A wrapper script executes its program, and that listens, within one scan. */
  #hasSameImage({ youngMark }: KnownFacts, entry: ProcessEntry): boolean {
    return youngMark === null || currentEntry(this.#sources.root, entry).execMark === youngMark;
  }
}
