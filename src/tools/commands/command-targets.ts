/** Which agents a command runs on: those that match, support it and are connected. */

import { CoralError } from "../../base/errors.ts";
import { formatDurationMs } from "../../base/units.ts";
import { capabilityOf, runtimeWithMode } from "../../model/runtime-facts.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import { activeAgents, matchAgents } from "../contract/match-agents.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { CommandKind, ResolvedTargets, TargetAgent, TargetSelector } from "../schemas/command.ts";
import { findService } from "../services/find-service.ts";

/** Agents named in an error; the rest are counted. */
const maxNamed = 50;

/** Every agent that matches, and whether it can run the command. Throws `usage` for an empty selector and `not-found` when none matches. */
export async function resolveTargets(
  backend: ColonyBackend,
  command: CommandKind,
  selector: TargetSelector,
  context: ToolCallContext,
): Promise<ResolvedTargets> {
  const target = selectorText(selector);
  if (target === "")
    throw new CoralError({
      code: "usage",
      message: `Cannot ${command}: no target; pass an agent, a service, a label, an environment or all`,
    });
  const active = activeAgents(await backend.agents(context));
  const service = selector.service === undefined ? null : await findService(backend, selector.service, context);
  const matching = await matchingAgents(backend, active, selector, service, context);
  if (matching.length === 0) {
    const where = service === null ? "no agent matches" : "it runs on none of the matching agents";
    throw new CoralError({
      code: "not-found",
      message: `Cannot ${command} at "${target}": ${where}; see coral agent list`,
      details: { target },
    });
  }
  const agents = matching.map((agent) => targetOf(agent, command)).sort(byUse);
  const usable = agents.filter((agent) => agent.reason === "");
  return { command, target, service, total: agents.length, usable: usable.length, agents };
}

/** The agents that get the command. Throws `unsupported`, or `unavailable` when those that could are not connected, with the reason for each. */
export function usableTargets(resolved: ResolvedTargets, selector: Pick<TargetSelector, "one">): TargetAgent[] {
  const usable = resolved.agents.filter((agent) => agent.reason === "");
  if (usable.length > 0) return selector.one ? usable.slice(0, 1) : usable;
  const { command, target, agents } = resolved;
  const isDisconnected = agents.some((agent) => agent.supported);
  const named = agents.slice(0, maxNamed);
  const reasons = named.map((agent) => `${agent.hostname}: ${agent.reason}`);
  const rest = agents.length > named.length ? `; and ${agents.length - named.length} more` : "";
  const fixes = [...new Set(agents.flatMap((agent) => (agent.fix === "" ? [] : [agent.fix])))].slice(0, 3);
  throw new CoralError({
    code: isDisconnected ? "unavailable" : "unsupported",
    message: `Cannot ${command} at "${target}": ${isDisconnected ? "no agent that supports it is connected" : "not supported by any target agents"} (${reasons.join("; ")}${rest})${fixes.length > 0 ? `; ${fixes.join("; ")}` : ""}`,
    details: { command, target, total: agents.length, agents: named },
  });
}

/** `service=api label=zone=eu env=prod`, for errors and the audit. Empty: nothing selected. */
export function selectorText({ agents = [], service, labels = {}, environment, all }: TargetSelector): string {
  return [
    ...agents.map((agent) => `agent=${agent}`),
    ...(service === undefined ? [] : [`service=${service}`]),
    ...Object.entries(labels).map(([name, value]) => `label=${name}=${value}`),
    ...(environment === undefined ? [] : [`env=${environment}`]),
    ...(all ? ["all"] : []),
  ].join(" ");
}

async function matchingAgents(
  backend: ColonyBackend,
  active: AgentInfo[],
  { agents = [], labels = {}, environment }: TargetSelector,
  service: string | null,
  context: ToolCallContext,
): Promise<AgentInfo[]> {
  let matching = active;
  if (agents.length > 0) {
    const wanted = new Set(agents.flatMap((text) => matchAgents(active, text)).map((agent) => agent.agentId));
    matching = matching.filter((agent) => wanted.has(agent.agentId));
  }
  if (service !== null) {
    const places = await backend.services({ service, processes: false }, context);
    const running = new Set(places.filter((place) => place.status !== "stale").map((place) => place.agentId));
    matching = matching.filter((agent) => running.has(agent.agentId));
  }
  matching = matching.filter((agent) => Object.entries(labels).every(([name, value]) => agent.labels[name] === value));
  if (environment !== undefined) {
    const { colony } = await backend.status(context);
    // An agent's own label overrides the environment of its colony.
    matching = matching.filter((agent) => (agent.labels["environment"] ?? agent.labels["env"] ?? colony.environment) === environment);
  }
  return matching;
}

function targetOf(agent: AgentInfo, command: CommandKind): TargetAgent {
  const { agentId, hostname, connected, runtime } = agent;
  // A legacy agent does not report capabilities: assume it is capable; it rejects commands that it does not know.
  const capability = runtime === null ? undefined : (capabilityOf(runtime, command) ?? unknownCapability);
  const supported = capability?.available ?? true;
  const absence = connected
    ? ""
    : `not connected${agent.lastContactAgoMs === null ? "" : `, last reported ${formatDurationMs(agent.lastContactAgoMs)} ago`}`;
  return {
    agentId,
    hostname,
    supported,
    connected,
    runtime: runtime === null ? "legacy agent" : runtimeWithMode(runtime),
    reason: supported ? absence : (capability?.reason ?? "") || "not supported",
    fix: supported ? "" : (capability?.fix ?? ""),
  };
}

const unknownCapability = { available: false, reason: "unknown to the agent", fix: "Update the agent" };

/** Usable first, then capable, then by name. A terminal opens on the first. */
function byUse(a: TargetAgent, b: TargetAgent): number {
  const rank = (agent: TargetAgent): number => (agent.reason === "" ? 0 : agent.supported ? 1 : 2);
  return rank(a) - rank(b) || a.hostname.localeCompare(b.hostname) || a.agentId.localeCompare(b.agentId);
}
