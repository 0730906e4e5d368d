/**
 * The statistics behind `coral diagnose`: facts of the usual state and of the time in question become ranked causes. Pure and deterministic.
 *
 * @module
 */

export { databaseFindings } from "./database-findings.ts";
export { type Cause, type Diagnosis, diagnose } from "./diagnose.ts";
export { type DatabaseKnowledge, databaseCandidates, judgeDatabases, worstStatement } from "./judge-database.ts";
export { judgeProfiles, profileCandidates } from "./judge-profiles.ts";
export type { CauseKind, Suspicion } from "./suspicion.ts";
