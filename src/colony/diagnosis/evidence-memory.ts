import type { EvidenceFact } from "../../model/diagnosis.ts";

/** Pieces of evidence that are kept; the least recently used go first. */
const maxKept = 2_000;

/** What evidence ids of recent diagnoses stand for. Lost with the process: the same question gives the same ids. */
export class EvidenceMemory {
  readonly #kept = new Map<string, EvidenceFact>();

  keep(facts: readonly EvidenceFact[]): void {
    for (const fact of facts) {
      this.#kept.delete(fact.id);
      this.#kept.set(fact.id, fact);
    }
    for (const id of this.#kept.keys()) {
      if (this.#kept.size <= maxKept) break;
      this.#kept.delete(id);
    }
  }

  find(id: string): EvidenceFact | undefined {
    const found = this.#kept.get(id);
    if (found) this.keep([found]);
    return found;
  }
}
