import * as z from "zod";
import type { ServiceAtAgent } from "../../model/services.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { activeAgents, matchAgents } from "../contract/match-agents.ts";
import { cutList, silentAgentNotes } from "../contract/missing-data.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { discoveryMethods, type Service, serviceListSchema, serviceStatusSchema } from "../schemas/service.ts";
import { groupServices } from "./group-services.ts";

/** Hosts shown for one service. */
const agentsMax = 20;
/** Processes shown for one service and host. */
const processesMax = 20;

export const listServices = defineTool({
  name: "coral_list_services",
  title: "List services",
  description:
    "List every service found or connected: name with origin and confidence, status, ports, instances, hosts, build, health, ingress, egress.",
  input: z.object({
    service: z.string().min(1).optional().describe("only the service of this exact name"),
    match: z.string().min(1).optional().describe("part of a name, or a former name or alias"),
    agent: agentInput(),
    status: serviceStatusSchema.optional(),
    method: z.enum(discoveryMethods).optional().describe("only services discovered this way"),
    class: z.enum(["ingress", "egress"]).optional().describe("with external callers (ingress) or external callees (egress)"),
    since: durationInput({ minMs: 1_000, maxMs: 366 * 86_400_000 })
      .optional()
      .describe("only those seen within: 5m, 2h, 7d"),
    processes: z.boolean().default(false).describe("with pid, executable, build and command line"),
    limit: limitInput(100, 10_000),
  }),
  output: serviceListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const request = { processes: input.processes, ...(input.service === undefined ? {} : { service: input.service }) };
    const [allAgents, found] = await Promise.all([backend.agents(context), backend.services(request, context)]);
    const agents = input.agent === undefined ? activeAgents(allAgents) : matchAgents(activeAgents(allAgents), input.agent);
    const oldest = input.since === undefined ? "" : new Date(Date.now() - input.since).toISOString();
    const services = groupServices(
      found.filter((place) => matches(place, input) && place.lastSeenAt >= oldest),
      agents,
    ).filter(
      (service) =>
        (input.status === undefined || service.status === input.status) && (input.class === undefined || service[input.class] === true),
    );
    const shown = cutList(services, input.limit, "services", "narrow with match or agent, or raise limit");
    const notes = [...silentAgentNotes(agents), ...shown.notes];
    const count = (status: Service["status"]): number => services.filter((service) => service.status === status).length;
    return {
      output: {
        total: services.length,
        managed: count("managed"),
        discovered: count("discovered"),
        stale: count("stale"),
        services: shown.items.map((service) => bound(service, notes)),
      },
      completeness: completenessOf(notes),
    };
  },
});

function matches(place: ServiceAtAgent, input: { match?: string | undefined; method?: string | undefined }): boolean {
  const { match, method } = input;
  if (match !== undefined && !isCalled(place, match.toLowerCase())) return false;
  return method === undefined || place.ports.some((port) => port.method === method);
}

function isCalled({ service, aliases = [] }: ServiceAtAgent, wanted: string): boolean {
  return service.toLowerCase().includes(wanted) || aliases.some((alias) => alias.toLowerCase() === wanted);
}

function bound(service: Service, notes: CompletenessNote[]): Service {
  const shown = cutList(service.agents, agentsMax, `hosts of ${service.service}`, "pass agent to see another one");
  notes.push(...shown.notes);
  return {
    ...service,
    agents: shown.items.map((agent) => {
      if (!agent.processes) return { ...agent, pids: agent.pids.slice(0, processesMax) };
      const processes = cutList(
        agent.processes,
        processesMax,
        `processes of ${service.service} on ${agent.hostname}`,
        "query them all with SQL",
      );
      notes.push(...processes.notes);
      return { ...agent, pids: agent.pids.slice(0, processesMax), processes: processes.items };
    }),
  };
}
