import * as z from "zod";
import type { EdgeFact } from "../../model/edges.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { limitInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { activeAgents } from "../contract/match-agents.ts";
import { cutList } from "../contract/missing-data.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { type EndpointUse, endpointListSchema } from "../schemas/network.ts";
import { trafficOf } from "./edge-traffic.ts";
import { publicOrPrivate } from "./public-or-private.ts";
import { networkInput, readNetwork } from "./read-network.ts";

const agentsMax = 20;

const input = z.object({
  ...networkInput,
  since: sinceInput("24h", { minMs: 60_000 }),
  limit: limitInput(100, 10_000),
});

export const getIngress = defineTool({
  name: "coral_get_ingress",
  title: "Ingress endpoints",
  description: "List external callers of services: address, name, scope (public = from the internet), connections, rates.",
  input,
  output: endpointListSchema,
  permission: "read",
  changes: false,
  handle: (backend: ColonyBackend, asked, context) => listEndpoints("INGRESS", backend, asked, context),
});

export const getEgress = defineTool({
  name: "coral_get_egress",
  title: "Egress endpoints",
  description:
    "List external addresses that services call: port, name, provider, connections, rates, and the first build that called them.",
  input,
  output: endpointListSchema,
  permission: "read",
  changes: false,
  handle: (backend: ColonyBackend, asked, context) => listEndpoints("EGRESS", backend, asked, context),
});

async function listEndpoints(
  wanted: "INGRESS" | "EGRESS",
  backend: ColonyBackend,
  asked: z.infer<typeof input>,
  context: Parameters<typeof readNetwork>[2],
) {
  const { facts, agents, notes } = await readNetwork(backend, asked, context);
  const uses = facts.edges
    .filter((edge) => edge.class === wanted)
    .map((edge) => endpointUseOf(edge, facts.windowMs, agents))
    .sort((a, b) => b.connections - a.connections || a.service.localeCompare(b.service) || a.address.localeCompare(b.address));
  const shown = cutList(uses, asked.limit, "endpoints", "narrow with service or agent, or raise limit");
  return {
    output: { sinceMs: asked.since, total: uses.length, endpoints: shown.items },
    completeness: completenessOf([...notes, ...shown.notes]),
  };
}

function endpointUseOf(edge: EdgeFact, windowMs: number, agents: AgentInfo[]): EndpointUse {
  const isIngress = edge.class === "INGRESS";
  const [own, outside] = isIngress ? [edge.server, edge.client] : [edge.client, edge.server];
  const hostnames = activeAgents(agents)
    .filter((agent) => own.agentIds.includes(agent.agentId))
    .map((agent) => agent.hostname);
  return {
    service: own.name,
    agents: hostnames.slice(0, agentsMax),
    address: outside.name,
    port: isIngress ? null : edge.serverPort,
    servicePort: isIngress ? edge.serverPort : null,
    protocol: edge.protocol,
    scope: publicOrPrivate(outside.name),
    name: outside.resolved?.name ?? null,
    nameMethod: outside.resolved?.method ?? null,
    provider: outside.resolved?.provider ?? null,
    product: outside.resolved?.product ?? null,
    class: edge.class,
    confidence: edge.confidence,
    firstBuild: edge.firstBuild,
    ...trafficOf([edge], windowMs),
  };
}
