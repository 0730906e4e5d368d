import { CoralError } from "../../base/errors.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { ColonyBackend } from "./backend.ts";
import type { ToolCallContext } from "./define-tool.ts";

const shownMax = 10;

/**
 * Resolves `text` to agents: an id, a host name (with or without its domain), or a prefix of exactly one id.
 * Several hosts with the same name all match. Throws `not-found` with the known agents.
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

/** All agents except revoked ones. */
export function activeAgents(agents: AgentInfo[]): AgentInfo[] {
  return agents.filter((agent) => !agent.revoked);
}

/**
 * Drops agents that were replaced by a newer one on the same host: a restart with a new CORAL_HOME gets a new id but is
 * the same agent. Two agents that run side by side both stay.
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

/** The agents that a request selects. */
export interface ChosenAgents {
  /** All active agents. */
  agents: AgentInfo[];
  /** The selected agents; undefined: all. */
  chosen: AgentInfo[] | undefined;
  /** Their ids, for a request to the backend. */
  which: { agentIds?: string[] };
}

export async function chooseAgents(backend: ColonyBackend, text: string | undefined, context: ToolCallContext): Promise<ChosenAgents> {
  const agents = activeAgents(await backend.agents(context));
  const chosen = text === undefined ? undefined : matchAgents(agents, text);
  return { agents, chosen, which: chosen === undefined ? {} : { agentIds: chosen.map((agent) => agent.agentId) } };
}
