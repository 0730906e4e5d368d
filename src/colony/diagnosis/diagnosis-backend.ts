/** Backend methods for diagnoses: facts from the store, and evidence by id. */

import type { Clock } from "../../base/clock.ts";
import { type ColonyStore, findEvidence, findIncidentEvidence, storeEvidence } from "../../store/colony/index.ts";
import { queryDatabaseTraffic, queryDiagnosis, queryOnset } from "../../store/queries/index.ts";
import type { ColonyBackend } from "../../tools/index.ts";

export type DiagnosisBackend = Pick<
  ColonyBackend,
  "nowMs" | "diagnosisOnset" | "diagnosisFacts" | "databaseTraffic" | "keepEvidence" | "evidence"
>;

export function createDiagnosisBackend({ store, clock }: { store: ColonyStore; clock: Clock }): DiagnosisBackend {
  return {
    nowMs: () => clock.wallMs(),
    diagnosisOnset: (request) => queryOnset(store, request),
    diagnosisFacts: (times) => queryDiagnosis(store, times),
    databaseTraffic: (times) => queryDatabaseTraffic(store, times),
    keepEvidence: (facts) => storeEvidence(store, facts, clock.wallMs()),
    evidence: async (id) => (await findEvidence(store, id)) ?? (await findIncidentEvidence(store, id)),
  };
}
