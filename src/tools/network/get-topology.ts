import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import type { EdgePageFacts } from "../../model/edges.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext, type ToolResult } from "../contract/define-tool.ts";
import { activeAgents, matchAgents } from "../contract/match-agents.ts";
import { cutList, cutNotes } from "../contract/missing-data.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { connectionClassSchema, type Topology, topologySchema } from "../schemas/network.ts";
import { EdgeRequestIndex } from "./edge-requests.ts";
import { matchesOutside } from "./external-names.ts";
import { networkInput, readNetwork } from "./read-network.ts";
import { joinSpanEdges, readSpanEdges, spanEdgeNotes, withSpanPercentiles } from "./span-edges.ts";
import { compare, cutByClass, edgeOf, type Link, nodeOfFact, TopologyGraph } from "./topology-graph.ts";

const edgesMax = 20_000;
/** Half a kilobyte each; bounds what one answer adds to a model's context. */
const edgesShown = 200;

export const getTopology = defineTool({
  name: "coral_get_topology",
  title: "Service topology",
  description:
    "Show the service graph: services, external callers and dependencies, with request rate, error share, p95, connections and confidence. With service: its transitive dependencies and dependents.",
  input: z.object({
    ...networkInput,
    service: z.string().min(1).optional().describe("only around this service or external name, provider or address"),
    direction: z
      .enum(["dependencies", "dependents", "both"])
      .default("both")
      .describe("dependencies: what the service needs; dependents: what needs it"),
    depth: z.int().min(1).max(50).default(10).describe("maximum hops from the service"),
    class: connectionClassSchema.optional().describe("only connections of this class"),
    since: sinceInput("1h", { minMs: 60_000 }),
    limit: z.int().min(1).max(10_000).default(200).describe("nodes"),
    edges: z.int().min(1).max(edgesMax).default(edgesShown).describe("edges, busiest first"),
  }),
  output: topologySchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    // A walk needs every edge, so the service is not part of the request. Without a service the store truncates, and only displayed edges are read.
    const { service, ...rest } = input;
    const page = { nodes: input.limit, edges: input.edges, ...(input.class === undefined ? {} : { class: input.class }) };
    const which = input.agent === undefined ? {} : { agentIds: await agentIdsOf(backend, input.agent, context) };
    const spans = await readSpanEdges(backend, { sinceMs: input.since, ...which }, context);
    // The store ranks by connections only: with span edges, read all and truncate here.
    const isPage = service === undefined && spans.edges.length === 0;
    const { facts, agents, notes } = await readNetwork(backend, isPage ? { ...rest, page } : rest, context);
    // Spans count only where hooks saw no request, which needs all requests from hooks.
    const joined =
      spans.edges.length === 0
        ? undefined
        : joinSpanEdges(facts.edges, await backend.edgeRed({ sinceMs: input.since, ...which }, context), spans);
    /** Reads percentiles last, for displayed edges only: those of all edges would dominate the cost. */
    const indexRequests = async (links: readonly Link[]): Promise<EdgeRequestIndex> => {
      const shown = links.flatMap((link) => link.facts);
      const scope = { sinceMs: input.since, ...which };
      if (!joined) return new EdgeRequestIndex(await backend.edgeRed({ ...scope, among: shown }, context));
      return new EdgeRequestIndex(await withSpanPercentiles(backend, { requests: joined.requests, spans, shown }, scope, context));
    };
    const edges = joined?.edges ?? facts.edges;
    const graph = new TopologyGraph(input.class === undefined ? edges : edges.filter((edge) => edge.class === input.class));
    const agentOf = new Map(agents.map((agent) => [agent.agentId, agent]));
    if (facts.page) {
      const links = graph.linksAmong(new Set(graph.nodes.keys()));
      return pageOf(facts.page, links, [...notes, ...spanEdgeNotes(spans)], {
        input,
        agents: agentOf,
        windowMs: facts.windowMs,
        requestIndex: await indexRequests(links),
      });
    }
    const matched = service === undefined ? [] : await matchNodes(graph, spans.aliases.get(service) ?? service, backend, context);
    const reached = service === undefined ? undefined : graph.walk(matched, input.direction, input.depth);
    const ids = byNearness(graph, reached);
    const shown = cutList(ids, input.limit, "nodes", nodeAdvice);
    const all = graph.linksAmong(new Set(shown.items));
    const links = cutByClass(all, input.edges);
    const requestIndex = await indexRequests(links);
    const { notes: cut } = cutList(all, input.edges, "edges", edgeAdvice);
    return {
      output: {
        sinceMs: input.since,
        matched,
        totals: {
          services: ids.filter((id) => id.startsWith("service:")).length,
          ...graph.countOutside(ids),
          edges: links.length,
        },
        nodes: shown.items.map((id) => graph.nodeOf(id, reached?.get(id), agentOf)),
        edges: links.flatMap((link) => edgeOf(link, facts.windowMs, requestIndex)),
      },
      completeness: completenessOf([...notes, ...spanEdgeNotes(spans), ...shown.notes, ...cut]),
    };
  },
});

/** Nearest first, then by connections. */
function byNearness(graph: TopologyGraph, reached: ReturnType<TopologyGraph["walk"]> | undefined): string[] {
  const weights = graph.weights();
  return [...(reached?.keys() ?? graph.nodes.keys())].sort(
    (a, b) =>
      (reached?.get(a)?.distance ?? 0) - (reached?.get(b)?.distance ?? 0) || (weights.get(b) ?? 0) - (weights.get(a) ?? 0) || compare(a, b),
  );
}

const nodeAdvice = "select one service, or raise limit";
const edgeAdvice = "select one service, or narrow with class";

interface PageContext {
  input: { since: number; limit: number; edges: number };
  agents: ReadonlyMap<string, AgentInfo>;
  windowMs: number;
  requestIndex: EdgeRequestIndex;
}

/** The graph without a selected service, as truncated by the store. */
function pageOf(
  { nodes, totals }: EdgePageFacts,
  links: readonly Link[],
  notes: CompletenessNote[],
  { input, agents, windowMs, requestIndex }: PageContext,
): ToolResult<Topology> {
  return {
    output: {
      sinceMs: input.since,
      matched: [],
      totals: {
        services: totals.services,
        ingressSources: totals.ingressSources,
        egressDestinations: totals.egressDestinations,
        edges: links.length,
      },
      nodes: nodes.map((node) => nodeOfFact(node, agents)),
      edges: links.flatMap((link) => edgeOf(link, windowMs, requestIndex)),
    },
    completeness: completenessOf([
      ...notes,
      ...cutNotes(totals.nodes, input.limit, "nodes", nodeAdvice),
      ...cutNotes(totals.edges, input.edges, "edges", edgeAdvice),
    ]),
  };
}

async function agentIdsOf(backend: ColonyBackend, text: string, context: ToolCallContext): Promise<string[]> {
  return matchAgents(activeAgents(await backend.agents(context)), text).map((agent) => agent.agentId);
}

/** A service by exact name, else an external node, else services whose names contain the text. */
async function matchNodes(graph: TopologyGraph, text: string, backend: ColonyBackend, context: { signal: AbortSignal }): Promise<string[]> {
  const wanted = text.toLowerCase();
  const nodes = [...graph.nodes.values()];
  const exact = nodes.filter((node) => node.kind === "service" && node.name.toLowerCase() === wanted);
  if (exact.length > 0) return exact.map((node) => node.id);
  const outside = nodes.filter((node) => node.kind === "external" && node.ends.some((end) => matchesOutside(end, text)));
  const partly = nodes.filter((node) => node.kind === "service" && node.name.toLowerCase().includes(wanted));
  if (outside.length + partly.length > 0) return [...outside, ...partly].map((node) => node.id);
  const known = await backend.services({ processes: false }, context);
  // A service without any calls is a valid selection.
  const quiet = known.find((place) => place.service.toLowerCase() === wanted);
  if (quiet) return [graph.addService(quiet.service, quiet.agentId)];
  throw new CoralError({
    code: "not-found",
    message: `Cannot find "${text}" in the topology: no service or external name matches in this window; widen since, or see coral_list_services`,
  });
}
