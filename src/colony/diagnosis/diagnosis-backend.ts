/** The backend's part of a diagnosis: facts from the store, and the evidence that answers referred to. */

import type { Clock } from "../../base/clock.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
import { queryDiagnosis, queryOnset } from "../../store/queries/index.ts";
import type { ColonyBackend } from "../../tools/index.ts";
import { EvidenceMemory } from "./evidence-memory.ts";

export type DiagnosisBackend = Pick<ColonyBackend, "nowMs" | "diagnosisOnset" | "diagnosisFacts" | "keepEvidence" | "evidence">;

export function createDiagnosisBackend({ store, clock }: { store: ColonyStore; clock: Clock }): DiagnosisBackend {
  const memory = new EvidenceMemory();
  return {
    nowMs: () => clock.wallMs(),
    diagnosisOnset: (request) => queryOnset(store, request),
    diagnosisFacts: (times) => queryDiagnosis(store, times),
    keepEvidence: (facts) => memory.keep(facts),
    evidence: (id) => memory.find(id),
  };
}
