import * as z from "zod";
import type { ColonyBackend } from "./backend.ts";
import { type CompletenessNote, completenessOf } from "./completeness.ts";
import { defineTool } from "./define-tool.ts";
import { activeAgents, matchAgents } from "./match-agents.ts";
import { cutList, silentAgentNotes } from "./missing-data.ts";
import type { AgentHealth, AgentInfo } from "./schemas/agent.ts";
import { type Service, type ServiceListener, serviceListSchema } from "./schemas/service.ts";

/** Hosts shown for one service. */
const agentsMax = 20;
/** Pids shown for one service and host. */
const pidsMax = 20;
const healths: AgentHealth[] = ["healthy", "degraded", "unhealthy"];

export const listServices = defineTool({
  name: "coral_list_services",
  title: "List services",
  description: "The services found listening on TCP ports: name and what it comes from, instances, ports, hosts.",
  input: z.object({
    match: z.string().min(1).optional().describe("part of a service name"),
    agent: z.string().min(1).optional().describe("agent id or host name"),
    limit: z.int().min(1).max(1000).default(100),
  }),
  output: serviceListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const [allAgents, listeners] = await Promise.all([backend.agents(context), backend.services(context)]);
    const agents = input.agent === undefined ? activeAgents(allAgents) : matchAgents(activeAgents(allAgents), input.agent);
    const match = input.match?.toLowerCase();
    const wanted = listeners.filter((listener) => match === undefined || listener.service.toLowerCase().includes(match));
    const services = groupServices(wanted, agents);
    const shown = cutList(services, input.limit, "services", "narrow with match or agent, or raise limit");
    const notes = [...silentAgentNotes(agents), ...shown.notes];
    return {
      output: { total: services.length, services: shown.items.map((service) => bound(service, notes)) },
      completeness: completenessOf(notes),
    };
  },
});

function groupServices(listeners: ServiceListener[], agents: AgentInfo[]): Service[] {
  const agentOf = new Map(agents.map((agent) => [agent.agentId, agent]));
  const services = new Map<string, Service>();
  for (const listener of listeners) {
    const agent = agentOf.get(listener.agentId);
    if (agent) addListener(services, listener, agent);
  }
  for (const service of services.values()) {
    service.instances = service.agents.reduce((sum, agent) => sum + agent.instances, 0);
    service.ports.sort((a, b) => a.port - b.port);
    service.agents.sort((a, b) => a.hostname.localeCompare(b.hostname));
  }
  return [...services.values()].sort((a, b) => a.service.localeCompare(b.service));
}

function addListener(services: Map<string, Service>, listener: ServiceListener, agent: AgentInfo): void {
  let service = services.get(listener.service);
  if (!service) {
    service = { service: listener.service, namedBy: listener.namedBy, instances: 0, ports: [], health: "healthy", agents: [] };
    services.set(listener.service, service);
  }
  const { port, protocol } = listener;
  if (!service.ports.some((known) => known.port === port && known.protocol === protocol)) service.ports.push({ port, protocol });
  if (healths.indexOf(agent.health) > healths.indexOf(service.health)) service.health = agent.health;
  let place = service.agents.find((known) => known.agentId === agent.agentId);
  if (!place) {
    const { agentId, hostname, health } = agent;
    place = { agentId, hostname, health, instances: 0, pids: [], exe: listener.exe, addresses: [], sampledAt: listener.sampledAt };
    service.agents.push(place);
  }
  place.pids = [...new Set([...place.pids, ...listener.pids])].sort((a, b) => a - b);
  // One process on several ports is one instance; without pids the largest count of one port is the best that is known.
  place.instances = Math.max(place.instances, place.pids.length, listener.instances);
  for (const address of listener.addresses) {
    const shown = `${address.includes(":") ? `[${address}]` : address}:${port}`;
    if (!place.addresses.includes(shown)) place.addresses.push(shown);
  }
}

function bound(service: Service, notes: CompletenessNote[]): Service {
  const shown = cutList(service.agents, agentsMax, `hosts of ${service.service}`, "ask with agent for another one");
  notes.push(...shown.notes);
  return { ...service, agents: shown.items.map((agent) => ({ ...agent, pids: agent.pids.slice(0, pidsMax) })) };
}
