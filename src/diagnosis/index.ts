/**
 * The statistics behind `coral diagnose`: rank root causes from the facts of a baseline and of the time in question. Pure and
 * deterministic. @module
 */

export { databaseFindings } from "./database-findings.ts";
export { type Cause, type Diagnosis, diagnose } from "./diagnose.ts";
export { type DatabaseKnowledge, databaseCandidates, judgeDatabases, worstStatement } from "./judge-database.ts";
export { judgeProfiles, profileCandidates } from "./judge-profiles.ts";
export type { CauseKind, Suspicion } from "./suspicion.ts";
