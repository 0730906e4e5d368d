/** Builds the service graph and walks it. */

import type { EdgeEnd, EdgeFact, TopologyNodeFact } from "../../model/edges.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { TopologyEdge, TopologyNode } from "../schemas/network.ts";
import type { EdgeRequestIndex } from "./edge-requests.ts";
import { trafficOf } from "./edge-traffic.ts";
import { outsideName } from "./external-names.ts";

export type Direction = "dependencies" | "dependents" | "both";

export interface Reached {
  /** Hops from the nearest start. */
  distance: number;
  relation: NonNullable<TopologyNode["relation"]>;
}

interface Node extends Omit<TopologyNode, "distance" | "relation" | "agents" | "agentCount" | "addresses"> {
  agentIds: string[];
  addresses: string[];
  /** All endpoints merged into this node; user input is matched against them. */
  ends: EdgeEnd[];
}

export interface Link {
  from: string;
  to: string;
  facts: EdgeFact[];
}

const addressesMax = 5;
const agentsMax = 5;
/** Endpoints kept per node for matching; an external node can have thousands of addresses. */
const endsMax = 200;

export class TopologyGraph {
  readonly nodes = new Map<string, Node>();
  readonly #links = new Map<string, Link>();
  /** Cached by identity: facts share endpoint objects. */
  readonly #ids = new Map<EdgeEnd, string>();
  readonly #calls = new Map<string, Link[]>();
  readonly #calledBy = new Map<string, Link[]>();

  constructor(edges: readonly EdgeFact[]) {
    for (const fact of edges) {
      const from = this.#nodeOf(fact.client);
      const to = this.#nodeOf(fact.server);
      const key = `${from}\n${to}\n${fact.protocol}\n${fact.serverPort}\n${fact.class}`;
      const known = this.#links.get(key);
      if (known) {
        known.facts.push(fact);
        continue;
      }
      const link = { from, to, facts: [fact] };
      this.#links.set(key, link);
      push(this.#calls, from, link);
      push(this.#calledBy, to, link);
    }
  }

  /** Adds a service without edges; returns its id. */
  addService(name: string, agentId: string): string {
    return this.#nodeOf({ kind: "service", name, addresses: [], agentIds: [agentId], resolved: null });
  }

  /**
   * All nodes within `depth` hops of the starts, each by its shortest path. The walk stops at hosts and external nodes: they stand
   * for unknown programs, so calls into and out of them are not one path. A connection attempt that always failed is not a
   * dependency; next to a start it is shown as an attempt.
   */
  walk(starts: readonly string[], direction: Direction, depth: number): Map<string, Reached> {
    const reached = new Map<string, Reached>(starts.map((id) => [id, { distance: 0, relation: "asked" }]));
    if (direction !== "dependents") this.#spread(starts, depth, reached, this.#calls, "to", "dependency");
    if (direction !== "dependencies") this.#spread(starts, depth, reached, this.#calledBy, "from", "dependent");
    return reached;
  }

  #spread(
    starts: readonly string[],
    depth: number,
    reached: Map<string, Reached>,
    links: ReadonlyMap<string, Link[]>,
    far: "from" | "to",
    relation: "dependency" | "dependent",
  ): void {
    const seen = new Set(starts);
    let frontier = [...starts];
    const attempts = new Set<string>();
    for (let distance = 1; distance <= depth && frontier.length > 0; distance++) {
      const next: string[] = [];
      for (const id of frontier) {
        for (const link of links.get(id) ?? []) {
          const other = link[far];
          if (seen.has(other)) continue;
          if (!isEstablished(link)) {
            if (distance === 1) attempts.add(other);
            continue;
          }
          seen.add(other);
          if (this.nodes.get(other)?.kind === "service") next.push(other);
          const before = reached.get(other);
          reached.set(other, before ? { distance: Math.min(before.distance, distance), relation: "both" } : { distance, relation });
        }
      }
      frontier = next;
    }
    for (const id of attempts) if (!reached.has(id)) reached.set(id, { distance: 1, relation: "attempt" });
  }

  /** Edges between kept nodes, most connections first. */
  linksAmong(kept: ReadonlySet<string>): Link[] {
    const ranked: { link: Link; connections: number }[] = [];
    for (const link of this.#links.values()) {
      if (kept.has(link.from) && kept.has(link.to)) ranked.push({ link, connections: connectionsOf(link) });
    }
    ranked.sort((a, b) => b.connections - a.connections || compareLinks(a.link, b.link));
    return ranked.map(({ link }) => link);
  }

  /** Counts external callers and external callees among the given nodes. */
  countOutside(ids: readonly string[]): { ingressSources: number; egressDestinations: number } {
    const outside = ids.filter((id) => this.nodes.get(id)?.kind === "external");
    return {
      ingressSources: outside.filter((id) => this.#calls.has(id)).length,
      egressDestinations: outside.filter((id) => this.#calledBy.has(id)).length,
    };
  }

  /** Connections per node, the rank for truncation. */
  weights(): Map<string, number> {
    const weights = new Map<string, number>();
    for (const link of this.#links.values()) {
      const { from, to } = link;
      const connections = connectionsOf(link);
      weights.set(from, (weights.get(from) ?? 0) + connections);
      if (to !== from) weights.set(to, (weights.get(to) ?? 0) + connections);
    }
    return weights;
  }

  nodeOf(id: string, reached: Reached | undefined, agents: ReadonlyMap<string, AgentInfo>): TopologyNode {
    const node = this.nodes.get(id) ?? { id, kind: "service", name: id, addresses: [], agentIds: [], provider: null, product: null };
    return nodeOfFact({ ...node, agentCount: node.agentIds.length }, agents, reached);
  }

  #nodeOf(end: EdgeEnd): string {
    const known = this.#ids.get(end);
    if (known !== undefined) return known;
    const name = end.kind === "external" ? outsideName(end) : end.name;
    const id = `${end.kind}:${name}`;
    let node = this.nodes.get(id);
    if (!node) {
      const provider = end.resolved?.provider ?? null;
      const product = end.resolved?.product ?? null;
      node = { id, kind: end.kind, name, provider, product, agentIds: [], addresses: [], ends: [] };
      this.nodes.set(id, node);
    }
    for (const agentId of end.agentIds) if (!node.agentIds.includes(agentId)) node.agentIds.push(agentId);
    for (const address of end.kind === "external" ? [end.name] : end.addresses) {
      if (node.addresses.length < addressesMax && !node.addresses.includes(address)) node.addresses.push(address);
    }
    if (node.ends.length < endsMax && end.kind === "external") node.ends.push(end);
    this.#ids.set(end, id);
    return id;
  }
}

export function nodeOfFact(node: TopologyNodeFact, agents: ReadonlyMap<string, AgentInfo>, reached?: Reached): TopologyNode {
  const { id, kind, name, addresses, agentIds, agentCount, provider, product } = node;
  return {
    id,
    kind,
    name: kind === "host" ? (agents.get(name)?.hostname ?? name) : name,
    addresses,
    agents: agentIds.slice(0, agentsMax).map((agentId) => agents.get(agentId)?.hostname ?? agentId),
    agentCount,
    provider,
    product,
    distance: reached?.distance ?? null,
    relation: reached?.relation ?? null,
  };
}

/** Compares by code unit: locale-aware comparison costs ten times as much on large graphs. */
export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function push<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

export function edgeOf({ from, to, facts }: Link, windowMs: number, requestIndex: EdgeRequestIndex): TopologyEdge[] {
  const [first] = facts;
  if (!first) return [];
  const requests = requestIndex.of(facts);
  const evidence = facts.length === 1 ? first.evidence : [...new Set(facts.flatMap((fact) => fact.evidence))].sort();
  return [
    {
      from,
      to,
      protocol: first.protocol,
      port: first.serverPort,
      class: first.class,
      confidence: facts.reduce((best, fact) => Math.max(best, fact.confidence), 0),
      evidence: requestIndex.hasHooked(facts) ? [...evidence, "requests"] : evidence,
      ...trafficOf(facts, windowMs),
      requests,
    },
  ];
}

/** At most `limit` edges in the same order, shared among classes so that internal edges do not crowd out external ones. */
export function cutByClass(links: readonly Link[], max: number): Link[] {
  if (links.length <= max) return [...links];
  const counts = new Map<string, number>();
  for (const { facts } of links) counts.set(facts[0]?.class ?? "", (counts.get(facts[0]?.class ?? "") ?? 0) + 1);
  const shares = new Map<string, number>();
  let left = max;
  const smallestFirst = [...counts].sort(([, one], [, other]) => one - other);
  for (const [index, [name, count]] of smallestFirst.entries()) {
    const share = Math.min(count, Math.floor(left / (smallestFirst.length - index)));
    shares.set(name, share);
    left -= share;
  }
  return links.filter(({ facts }) => {
    const name = facts[0]?.class ?? "";
    const share = shares.get(name) ?? 0;
    shares.set(name, share - 1);
    return share > 0;
  });
}

/** Edges from spans have no connections but count as calls. */
function isEstablished({ facts }: Link): boolean {
  return facts.some(({ connections, failures }) => connections > 0 || failures === 0);
}

function connectionsOf({ facts }: Link): number {
  let connections = 0;
  for (const fact of facts) connections += fact.connections;
  return connections;
}

function compareLinks(a: Link, b: Link): number {
  return compare(a.from, b.from) || compare(a.to, b.to) || (a.facts[0]?.serverPort ?? 0) - (b.facts[0]?.serverPort ?? 0);
}
