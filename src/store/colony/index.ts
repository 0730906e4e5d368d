/** The colony's store: everything pulled from agents, with registry, roll-ups and retention. @module */

export { type ColonyStore, openColonyStore, type PullOutcome } from "./colony-store.ts";
export { findEvidence, storeEvidence } from "./evidence-table.ts";
export {
  countIncidents,
  deleteObjectives,
  findIncidentEvidence,
  loadIncidents,
  loadObjectives,
  type StoredEvent,
  saveIncidents,
  saveObjective,
} from "./incident-tables.ts";
export {
  type AgentRecord,
  type AgentRegistration,
  insertToken,
  listAgents,
  listConflicts,
  listTokens,
  recordConflict,
  recordEvent,
  revokeAgent,
  revokeToken,
  type TokenRecord,
  touchAgents,
  upsertAgent,
  useToken,
} from "./registry-tables.ts";
export { forgetRuntime, listRuntimeHistory, loadRuntimes, storeRuntime } from "./runtime-tables.ts";
