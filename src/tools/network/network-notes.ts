import type { NetworkFacts } from "../../model/edges.ts";
import type { LossFact } from "../contract/backend.ts";
import { lossNotes, silentAgentNotes } from "../contract/missing-data.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";

/** Signals whose losses make answers about the network incomplete. */
export const networkSignals: string[] = ["connection", "service_instance"];

/** What an answer about connections could not see. */
export function networkNotes(facts: NetworkFacts, agents: AgentInfo[], losses: LossFact[]): CompletenessNote[] {
  const notes = [...silentAgentNotes(agents), ...lossNotes(losses)];
  if (agents.length === 0) {
    notes.push({ kind: "no-data", message: "no agent has joined this colony; start one with coral agent start" });
    return notes;
  }
  const scanning = agents.filter(({ capabilities }) => !capabilities.some(({ name, available }) => name === "connections" && available));
  if (scanning.length > 0) {
    const ids = scanning.map(({ agentId }) => agentId);
    const where = scanning.length < agents.length ? ` on ${namesOf(ids, agents)}` : "";
    notes.push({ kind: "sampled", message: `connections that open and close between two scans are not seen${where}` });
  }
  if (facts.skippedConnections > 0) {
    const where = namesOf(facts.skippedAgentIds, agents);
    notes.push({
      kind: "unattributed",
      rows: facts.skippedConnections,
      message: `${facts.skippedConnections} connections on ${where} have no known service at either end and are excluded; coral doctor shows what an agent may not read`,
    });
  }
  if (facts.unsettledConnections > 0) {
    notes.push({
      kind: "sampled",
      rows: facts.unsettledConnections,
      message: `${facts.unsettledConnections} connections are new: their other end may still report and make them internal`,
    });
  }
  if (facts.cutEdges > 0) notes.push({ kind: "limit", message: `${facts.cutEdges} edges with the fewest connections are excluded` });
  return notes;
}

function namesOf(agentIds: readonly string[], agents: readonly AgentInfo[]): string {
  const names = agentIds.slice(0, 5).map((id) => agents.find((agent) => agent.agentId === id)?.hostname ?? id);
  const more = agentIds.length - names.length;
  return more > 0 ? `${names.join(", ")} and ${more} more hosts` : names.join(", ");
}
