/** Notes on what answers about requests lack: silent agents, disabled hooks, and losses counted by hooks. */

import type { TrafficLossFact } from "../../model/red.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import { missingNotes } from "../contract/missing-data.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";

const hostsShown = 3;
const servicesShown = 5;

interface LossText {
  kind: CompletenessNote["kind"];
  /** Text between the number and the hosts. */
  what: (count: number) => string;
  /** Text after the hosts. */
  meaning: string;
}

const of = (one: string, many: string) => (count: number) => `${count} ${count === 1 ? one : many}`;

const lossTexts: Record<string, LossText> = {
  "ring-full": {
    kind: "rows-lost",
    what: of("record", "records"),
    meaning: "dropped because the kernel ring buffer was full; requests are missing, or have no route",
  },
  "routes-full": {
    kind: "limit",
    what: of("request", "requests"),
    meaning: 'counted under the route "other": more routes than traffic.max_routes_per_service',
  },
  "connections-full": {
    kind: "limit",
    what: of("connection", "connections"),
    meaning: "not tracked: more than traffic.max_connections",
  },
  "unknown-protocol": { kind: "unavailable", what: of("connection", "connections"), meaning: "of an unknown protocol" },
  undecoded: {
    kind: "rows-lost",
    what: of("request", "requests"),
    meaning: "not counted: truncated, joined midway, or too many kinds at once",
  },
  unreadable: { kind: "rows-lost", what: of("payload", "payloads"), meaning: "not read from process memory in time" },
  "tls-opaque": {
    kind: "unavailable",
    what: of("TLS connection", "TLS connections"),
    meaning: "not decrypted: the TLS library is unknown, stripped or excluded; see coral agent status",
  },
  "sampled-out": {
    kind: "sampled",
    what: of("connection", "connections"),
    meaning: "skipped with all their requests, to stay within the agent's CPU budget",
  },
  "away-seconds": { kind: "rows-lost", what: of("second", "seconds"), meaning: "unobserved: the traffic process was not running" },
};

/** Text for losses that concern single services. */
const unseenTexts: Record<string, (services: string) => string> = {
  "tls-unreadable": (services) => `requests of ${services} inside TLS are not seen`,
  "unix-socket": (services) => `requests of ${services} over unix sockets are not seen`,
  "io-uring": (services) => `requests of ${services} by io_uring are not seen or have no status`,
};

/** Null when an agent observes requests, else the reason why not. */
export function trafficProblemOf(agent: AgentInfo): string | null {
  const capability =
    agent.capabilities.find(({ name }) => name === "traffic") ?? agent.capabilities.find(({ name }) => name === "ebpf") ?? null;
  if (capability === null || capability.available) return null;
  return capability.reason === "" ? "kernel hooks are off" : capability.reason;
}

/** Builds the notes. `isEmpty`: no rows, so state a reason. `service`: only losses of the agents that run it. */
export async function trafficNotes(
  backend: ColonyBackend,
  asked: {
    agents: AgentInfo[];
    chosen: AgentInfo[] | undefined;
    service?: string | undefined;
    sinceMs: number;
    isEmpty: boolean;
    signals?: string[];
  },
  context: ToolCallContext,
): Promise<CompletenessNote[]> {
  const chosen = asked.chosen ?? (asked.service === undefined ? undefined : await agentsOf(backend, asked.service, asked.agents, context));
  const agents = chosen ?? asked.agents;
  if (agents.length === 0) return [{ kind: "no-data", message: "no agent has joined this colony; start one with coral agent start" }];
  const which = chosen === undefined ? {} : { agentIds: chosen.map((agent) => agent.agentId) };
  const signals = asked.signals ?? ["red", "traffic_loss"];
  const [losses, missing] = await Promise.all([
    backend.trafficLosses({ sinceMs: asked.sinceMs, ...which }, context),
    missingNotes(backend, { agents, which, signals, kept: ["red"], sinceMs: asked.sinceMs }, context),
  ]);
  const off = agents.filter((agent) => trafficProblemOf(agent) !== null);
  const hostLosses = losses.filter(({ service }) => service === null);
  const unseen = losses.filter(({ service }) => service !== null && (asked.service === undefined || service === asked.service));
  const notes = [...missing, ...offNotes(off), ...unseenNotes(unseen, agents), ...hookNotes(hostLosses, agents)];
  if (asked.isEmpty && off.length < agents.length)
    notes.push({ kind: "no-data", message: "no matching request in this window; widen since" });
  return notes;
}

/** Agents that run the service; undefined when unknown, as for one known only from spans. */
async function agentsOf(
  backend: ColonyBackend,
  service: string,
  agents: readonly AgentInfo[],
  context: ToolCallContext,
): Promise<AgentInfo[] | undefined> {
  const places = await backend.services({ service, processes: false }, context);
  const ids = new Set(places.filter((place) => place.service === service).map(({ agentId }) => agentId));
  const own = agents.filter(({ agentId }) => ids.has(agentId));
  return own.length === 0 ? undefined : own;
}

function offNotes(agents: AgentInfo[]): CompletenessNote[] {
  const byReason = new Map<string, AgentInfo[]>();
  for (const agent of agents) {
    const reason = trafficProblemOf(agent) ?? "";
    byReason.set(reason, [...(byReason.get(reason) ?? []), agent]);
  }
  return [...byReason].map(([reason, group]) => ({
    kind: "unavailable",
    message: `${hostList(group.map((agent) => agent.hostname))} ${group.length === 1 ? "sees" : "see"} no requests: ${reason}`,
    ...(group.length === 1 && group[0] ? { agent: group[0].agentId } : {}),
  }));
}

/** One note per reason, with the services and hosts concerned. */
function unseenNotes(losses: readonly TrafficLossFact[], agents: readonly AgentInfo[]): CompletenessNote[] {
  const byReason = new Map<string, TrafficLossFact[]>();
  for (const loss of losses) {
    const key = `${loss.loss} ${loss.detail ?? ""}`;
    byReason.set(key, [...(byReason.get(key) ?? []), loss]);
  }
  return [...byReason.values()].flatMap((group) => {
    const { loss, detail } = group[0] ?? { loss: "", detail: null };
    const services = [...new Set(group.map(({ service }) => service ?? ""))].sort();
    const more = services.length - servicesShown;
    const names = more > 0 ? `${services.slice(0, servicesShown).join(", ")} and ${more} more services` : services.join(", ");
    const text = unseenTexts[loss]?.(names);
    const reason = detail === null || detail === "" ? "" : `: ${detail}`;
    if (text === undefined) return [];
    return [{ kind: "unavailable" as const, signal: "traffic_loss", message: `${text} on ${hostList(hostsOf(group, agents))}${reason}` }];
  });
}

function hostsOf(losses: readonly TrafficLossFact[], agents: readonly AgentInfo[]): string[] {
  return [...new Set(losses.map(({ agentId }) => agents.find((agent) => agent.agentId === agentId)?.hostname ?? agentId))];
}

function hookNotes(losses: readonly TrafficLossFact[], agents: readonly AgentInfo[]): CompletenessNote[] {
  const byLoss = new Map<string, TrafficLossFact[]>();
  for (const loss of losses) if (loss.count > 0) byLoss.set(loss.loss, [...(byLoss.get(loss.loss) ?? []), loss]);
  return [...byLoss].map(([name, group]) => {
    const count = group.reduce((sum, loss) => sum + loss.count, 0);
    const text = lossTexts[name] ?? { kind: "rows-lost", what: of("item", "items"), meaning: `lost (${name})` };
    const hosts = hostsOf(group, agents);
    return { kind: text.kind, signal: "traffic_loss", rows: count, message: `${text.what(count)} on ${hostList(hosts)} ${text.meaning}` };
  });
}

function hostList(hostnames: readonly string[]): string {
  const more = hostnames.length - hostsShown;
  if (more > 0) return `${hostnames.slice(0, hostsShown).join(", ")} and ${more} more hosts`;
  return hostnames.join(", ");
}
