import * as z from "zod";
import type { EdgeFact, EdgePageRequest, NetworkFacts } from "../../model/edges.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, commonInputs, serviceInput } from "../contract/common-inputs.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import { missingNotes } from "../contract/missing-data.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";

/** Signals whose losses make network answers incomplete. */
const networkSignals: string[] = ["connection", "service_instance"];

/** Edges come from totals, which are retained longer than connections. */
export const networkKept = ["edge_totals"];

/** Service name of Coral's own processes. */
const ownService = "coral";

/** Input fields of every network tool. */
export const networkInput = {
  service: serviceInput(),
  agent: agentInput(),
  coral: z.boolean().default(false).describe(commonInputs.coral),
};

export interface NetworkRead {
  facts: NetworkFacts;
  /** All active agents, selected or not. */
  agents: AgentInfo[];
  notes: CompletenessNote[];
}

interface NetworkInput {
  service?: string | undefined;
  agent?: string | undefined;
  coral: boolean;
  since: number;
  /** Only the busiest edges, without Coral's own unless requested. */
  page?: Omit<EdgePageRequest, "without">;
}

/** The requested edges, without Coral's own unless requested, and the notes on gaps. */
export async function readNetwork(backend: ColonyBackend, input: NetworkInput, context: ToolCallContext): Promise<NetworkRead> {
  const { agents, chosen, which } = await chooseAgents(backend, input.agent, context);
  const isOwnWanted = input.coral || input.service === ownService;
  const [facts, missing] = await Promise.all([
    backend.edges(
      {
        sinceMs: input.since,
        ...which,
        ...(input.service === undefined ? {} : { service: input.service }),
        ...(input.page === undefined ? {} : { page: { ...input.page, ...(isOwnWanted ? {} : { without: ownService }) } }),
      },
      context,
    ),
    missingNotes(backend, { agents: chosen ?? agents, which, signals: networkSignals, kept: networkKept, sinceMs: input.since }, context),
  ]);
  const edges = isOwnWanted ? facts.edges : facts.edges.filter((edge) => !isOwn(edge));
  return { facts: { ...facts, edges }, agents, notes: [...missing, ...networkNotes(facts, chosen ?? agents)] };
}

const isOwn = ({ client, server }: EdgeFact): boolean => [client, server].some((end) => end.kind === "service" && end.name === ownService);

/** Notes on what an answer about connections lacks. */
function networkNotes(facts: NetworkFacts, agents: AgentInfo[]): CompletenessNote[] {
  const notes: CompletenessNote[] = [];
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
      message: `${facts.skippedConnections} connections on ${where} have no known service at either end and are excluded; coral doctor shows missing permissions`,
    });
  }
  if (facts.unsettledConnections > 0) {
    notes.push({
      kind: "sampled",
      rows: facts.unsettledConnections,
      message: `${facts.unsettledConnections} connections are new: the other end may still report, which would make them internal`,
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
