import * as z from "zod";
import type { EdgeFact, EdgePageRequest, NetworkFacts } from "../../model/edges.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, commonInputs, serviceInput } from "../contract/common-inputs.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";
import { networkNotes, networkSignals } from "./network-notes.ts";

/** Coral's own processes are a service of this name. */
const ownService = "coral";

/** Fields that every tool about the network takes. */
export const networkInput = {
  service: serviceInput(),
  agent: agentInput(),
  coral: z.boolean().default(false).describe(commonInputs.coral),
};

export interface NetworkRead {
  facts: NetworkFacts;
  /** All that count, whatever was asked for. */
  agents: AgentInfo[];
  notes: CompletenessNote[];
}

interface NetworkAsked {
  service?: string | undefined;
  agent?: string | undefined;
  coral: boolean;
  since: number;
  /** Only the most important edges; without Coral's own unless they are wanted. */
  page?: Omit<EdgePageRequest, "without">;
}

/** Edges as asked for, without Coral's own unless wanted, and what is not known about them. */
export async function readNetwork(backend: ColonyBackend, asked: NetworkAsked, context: ToolCallContext): Promise<NetworkRead> {
  const { agents, chosen, which } = await chooseAgents(backend, asked.agent, context);
  const isOwnWanted = asked.coral || asked.service === ownService;
  const [facts, losses] = await Promise.all([
    backend.edges(
      {
        sinceMs: asked.since,
        ...which,
        ...(asked.service === undefined ? {} : { service: asked.service }),
        ...(asked.page === undefined ? {} : { page: { ...asked.page, ...(isOwnWanted ? {} : { without: ownService }) } }),
      },
      context,
    ),
    backend.losses({ signals: networkSignals, sinceMs: asked.since, ...which }, context),
  ]);
  const edges = isOwnWanted ? facts.edges : facts.edges.filter((edge) => !isOwn(edge));
  return { facts: { ...facts, edges }, agents, notes: networkNotes(facts, chosen ?? agents, losses) };
}

const isOwn = ({ client, server }: EdgeFact): boolean => [client, server].some((end) => end.kind === "service" && end.name === ownService);
