import { CoralError } from "../../base/errors.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { ColonyBackend } from "./backend.ts";
import type { ToolCallContext } from "./define-tool.ts";

const shownMax = 10;

/**
 * The agents that a person means by `text`: an id, a host name (also without its domain), or the beginning of exactly one id.
 * Several hosts with one name all match. Throws `not-found` naming the agents there are.
 */
export function matchAgents(agents: AgentInfo[], text: string): AgentInfo[] {
  const wanted = text.toLowerCase();
  const byId = agents.filter((agent) => agent.agentId.toLowerCase() === wanted);
  if (byId.length > 0) return byId;
  const byName = agents.filter((agent) => agent.hostname.toLowerCase() === wanted);
  if (byName.length > 0) return byName;
  const byShortName = agents.filter((agent) => agent.hostname.toLowerCase().split(".")[0] === wanted);
  if (byShortName.length > 0) return byShortName;
  const byPrefix = wanted.length >= 4 ? agents.filter((agent) => agent.agentId.toLowerCase().startsWith(wanted)) : [];
  if (byPrefix.length === 1) return byPrefix;
  const known = agents.slice(0, shownMax).map((agent) => `${agent.hostname} (${agent.agentId})`);
  const rest = agents.length > shownMax ? ` and ${agents.length - shownMax} more; see coral agent list` : "";
  const state =
    byPrefix.length > 1
      ? `${byPrefix.length} agent ids start with it; use a longer prefix`
      : agents.length === 0
        ? "no agent has joined this colony; start one with coral agent start"
        : `known agents: ${known.join(", ")}${rest}`;
  throw new CoralError({ code: "not-found", message: `Cannot find agent "${text}": ${state}`, details: { agent: text } });
}

/** Agents that count: revoked ones are history. */
export function activeAgents(agents: AgentInfo[]): AgentInfo[] {
  return agents.filter((agent) => !agent.revoked);
}

/**
 * Without agents that another one on the same host took over from: a restart in a new home is a new id, but still one agent. Of two that run side by
 * side both stay.
 */
export function currentAgents(agents: AgentInfo[]): AgentInfo[] {
  const active = activeAgents(agents);
  return active.filter((agent) => !active.some((other) => isSuccessor(other, agent)));
}

function isSuccessor(later: AgentInfo, earlier: AgentInfo): boolean {
  const isSameHost = later.machineId !== "" && later.machineId === earlier.machineId && later.hostname === earlier.hostname;
  if (!isSameHost || later.agentId === earlier.agentId || earlier.connected) return false;
  return earlier.lastContactAt === null || Date.parse(later.firstSeenAt) >= Date.parse(earlier.lastContactAt);
}

/** The agents that a question is about. */
export interface ChosenAgents {
  /** All that count. */
  agents: AgentInfo[];
  /** The selected agents; undefined: all. */
  chosen: AgentInfo[] | undefined;
  /** The same, for a request to the backend. */
  which: { agentIds?: string[] };
}

export async function chooseAgents(backend: ColonyBackend, text: string | undefined, context: ToolCallContext): Promise<ChosenAgents> {
  const agents = activeAgents(await backend.agents(context));
  const chosen = text === undefined ? undefined : matchAgents(agents, text);
  return { agents, chosen, which: chosen === undefined ? {} : { agentIds: chosen.map((agent) => agent.agentId) } };
}
