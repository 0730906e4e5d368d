/** Merges edges from spans with edges from connections: a call counts once, however it was observed. */

import { CoralError } from "../../base/errors.ts";
import type { EdgeFact, EdgeRedFact, EdgeRedFacts, EdgesRequest, SpanEdgeFact, SpanEdgeFacts } from "../../model/edges.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";
import { serviceAliases } from "../services/service-aliases.ts";

/** Confidence of an edge that both programs report in matching spans. */
const spanConfidence = 0.95;

export interface NamedSpanEdges extends SpanEdgeFacts {
  /** Registry name by span name, where a process has both. */
  aliases: ReadonlyMap<string, string>;
  /** Span names by `pairKey` of the registry names. */
  originals: ReadonlyMap<string, { client: string; server: string }>;
  /** Why spans could not be read; empty when they were. */
  problem: string;
}

/** Edges from spans, under registry names. Without percentiles: see `spanPercentiles`. */
export async function readSpanEdges(backend: ColonyBackend, request: EdgesRequest, context: ToolCallContext): Promise<NamedSpanEdges> {
  try {
    return await namedEdges(backend, request, context);
  } catch (error) {
    context.signal.throwIfAborted();
    // Most of a topology comes from connections: when spans cannot be read, note it instead of failing.
    return { edges: [], windowMs: request.sinceMs, aliases: new Map(), originals: new Map(), problem: CoralError.from(error).message };
  }
}

async function namedEdges(backend: ColonyBackend, request: EdgesRequest, context: ToolCallContext): Promise<NamedSpanEdges> {
  const facts = await backend.spanEdges({ ...request, percentiles: 0 }, context);
  if (facts.edges.length === 0) return { ...facts, aliases: new Map(), originals: new Map(), problem: "" };
  const [processes, services] = await Promise.all([backend.spanProcesses(context), backend.services({ processes: false }, context)]);
  const aliases = serviceAliases(processes, services);
  const originals = new Map<string, { client: string; server: string }>();
  return { ...facts, aliases, originals, problem: "", edges: aliases.size === 0 ? facts.edges : renamed(facts.edges, aliases, originals) };
}

/** Maximum number of pairs per percentile query. */
const maxPairs = 2_000;

/** Adds percentiles to given edges whose requests come from spans. */
export async function withSpanPercentiles(
  backend: ColonyBackend,
  { requests, spans, shown }: { requests: EdgeRedFacts; spans: NamedSpanEdges; shown: readonly EdgeFact[] },
  request: EdgesRequest,
  context: ToolCallContext,
): Promise<EdgeRedFacts> {
  const wanted = new Set(shown.map(({ client, server }) => pairKey(client.name, server.name)));
  const keyOf = ({ client, server }: EdgeRedFact): string => pairKey(client.name, server.name);
  const pairs = requests.edges
    .filter((edge) => edge.bySpans !== undefined && wanted.has(keyOf(edge)))
    .slice(0, maxPairs)
    .map((edge) => spans.originals.get(keyOf(edge)) ?? { client: edge.client.name, server: edge.server.name });
  if (pairs.length === 0) return requests;
  const { edges } = await backend.spanEdges({ ...request, among: pairs }, context);
  const found = new Map(edges.map((edge) => [pairKey(edge.client, edge.server), edge]));
  return {
    ...requests,
    edges: requests.edges.map((edge) => {
      if (edge.bySpans === undefined) return edge;
      const original = spans.originals.get(keyOf(edge));
      const measured = found.get(original ? pairKey(original.client, original.server) : keyOf(edge));
      return measured ? { ...edge, p50Us: measured.p50Us, p95Us: measured.p95Us, p99Us: measured.p99Us } : edge;
    }),
  };
}

/** Merges edges of a service with two names, and drops calls between its own names. Percentiles are those of the busier edge. */
function renamed(
  edges: readonly SpanEdgeFact[],
  aliases: ReadonlyMap<string, string>,
  originals: Map<string, { client: string; server: string }>,
): SpanEdgeFact[] {
  const nameOf = (name: string): string => aliases.get(name) ?? name;
  const merged = new Map<string, SpanEdgeFact>();
  for (const fact of edges) {
    const edge = { ...fact, client: nameOf(fact.client), server: nameOf(fact.server) };
    if (edge.client === edge.server) continue;
    const key = pairKey(edge.client, edge.server);
    const other = merged.get(key);
    const [busier, quieter] = other !== undefined && other.requests > edge.requests ? [other, edge] : [edge, other ?? edge];
    const isAlone = busier === quieter;
    if (busier === edge) originals.set(key, { client: fact.client, server: fact.server });
    merged.set(key, {
      ...busier,
      requests: busier.requests + (isAlone ? 0 : quieter.requests),
      errors: busier.errors + (isAlone ? 0 : quieter.errors),
      firstSeenAt: busier.firstSeenAt < quieter.firstSeenAt ? busier.firstSeenAt : quieter.firstSeenAt,
      lastSeenAt: busier.lastSeenAt > quieter.lastSeenAt ? busier.lastSeenAt : quieter.lastSeenAt,
    });
  }
  return [...merged.values()];
}

/**
 * Services known to both spans and connections get one edge with the evidence of both; counts from hooks win, and spans give
 * the rate only where hooks saw no request. Services known only from spans get an edge without a port.
 */
export function joinSpanEdges(
  edges: readonly EdgeFact[],
  red: EdgeRedFacts,
  spans: SpanEdgeFacts,
): { edges: EdgeFact[]; requests: EdgeRedFacts } {
  const joined = [...edges];
  const added: EdgeRedFact[] = [];
  const known = new Map<string, number[]>();
  for (const [index, edge] of edges.entries()) {
    if (edge.client.kind !== "service" || edge.server.kind !== "service") continue;
    const key = pairKey(edge.client.name, edge.server.name);
    const list = known.get(key);
    if (list) list.push(index);
    else known.set(key, [index]);
  }
  const hooked = new Set(
    red.edges
      .filter(({ client, server }) => client.kind === "service" && server.kind === "service")
      .map((edge) => pairKey(edge.client.name, edge.server.name)),
  );
  for (const call of spans.edges) {
    const key = pairKey(call.client, call.server);
    const places = known.get(key) ?? [];
    // Spans carry no port: use that of the busiest connection between the two.
    const [place] = places.toSorted((a, b) => (joined[b]?.connections ?? 0) - (joined[a]?.connections ?? 0));
    const edge = place === undefined ? undefined : joined[place];
    if (place === undefined || edge === undefined) joined.push(edgeOf(call));
    else joined[place] = { ...edge, evidence: [...edge.evidence, "spans"] };
    if (!hooked.has(key)) added.push(requestsOf(call, edge?.serverPort ?? 0, spans.windowMs));
  }
  return { edges: joined, requests: { ...red, edges: [...red.edges, ...added] } };
}

/** The note for spans that could not be read. */
export function spanEdgeNotes({ problem }: NamedSpanEdges): CompletenessNote[] {
  return problem === "" ? [] : [{ kind: "unavailable", signal: "span", message: `edges from spans are missing: ${problem}` }];
}

const pairKey = (client: string, server: string): string => JSON.stringify([client, server]);

function edgeOf({ client, server, firstSeenAt, lastSeenAt }: SpanEdgeFact): EdgeFact {
  const end = (name: string): EdgeFact["client"] => ({ kind: "service", name, addresses: [], agentIds: [], resolved: null });
  return {
    class: "INTERNAL",
    confidence: spanConfidence,
    evidence: ["spans"],
    protocol: "tcp",
    serverPort: 0,
    client: end(client),
    server: end(server),
    connections: 0,
    openConnections: 0,
    opened: 0,
    failures: 0,
    bytesToServer: 0,
    bytesToClient: 0,
    rttUs: null,
    retransmits: null,
    firstSeenAt,
    lastSeenAt,
    firstBuild: null,
  };
}

function requestsOf(
  { client, server, protocol, requests, errors, p50Us, p95Us, p99Us }: SpanEdgeFact,
  serverPort: number,
  windowMs: number,
): EdgeRedFact {
  return {
    client: { kind: "service", name: client },
    server: { kind: "service", name: server },
    serverPort,
    protocol,
    requests,
    errors,
    p50Us,
    p95Us,
    p99Us,
    bySpans: { windowMs },
  };
}
