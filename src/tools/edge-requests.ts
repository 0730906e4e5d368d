/** Requests by edge, for answers that are made of connections. */

import { ratio } from "./red-rows.ts";
import type { EdgeFact, TopologyEdge } from "./schemas/network.ts";
import type { EdgeRedFact, EdgeRedFacts } from "./schemas/traffic.ts";

export type EdgeRequests = NonNullable<TopologyEdge["requests"]>;

/** Finds what was asked over the connections of an edge. */
export class EdgeRequestBook {
  readonly #facts = new Map<string, EdgeRedFact>();
  readonly #windowMs: number;

  constructor({ edges, windowMs }: EdgeRedFacts) {
    this.#windowMs = windowMs;
    for (const edge of edges) this.#facts.set(keyOf(edge), edge);
  }

  #factOf(edge: EdgeFact): EdgeRedFact | undefined {
    const fact = this.#facts.get(keyOf(edge));
    return fact && fits(edge.protocol, fact.protocol) ? fact : undefined;
  }

  /**
   * Sums over the facts of one drawn edge; null when no hook saw a request of any. Each fact counts once: an address outside that has several
   * edges brings its own requests. Percentiles of several do not add up: the one with the most requests tells them.
   */
  of(facts: readonly EdgeFact[]): EdgeRequests | null {
    const found = new Set(facts.flatMap((fact) => this.#factOf(fact) ?? []));
    let count = 0;
    let errors = 0;
    let main: EdgeRedFact | undefined;
    for (const edge of found) {
      count += edge.requests;
      errors += edge.errors;
      if (!main || edge.requests > main.requests) main = edge;
    }
    if (!main || count === 0) return null;
    return {
      protocol: main.protocol,
      count,
      perSecond: Number(((count * 1_000) / Math.max(1, this.#windowMs)).toPrecision(3)),
      errorRatio: ratio(errors, count),
      p50Us: main.p50Us,
      p95Us: main.p95Us,
      p99Us: main.p99Us,
    };
  }
}

/** Only names are asked over datagrams. */
function fits(transport: string, protocol: string): boolean {
  return transport.startsWith("udp") === (protocol === "dns");
}

function keyOf({ client, server, serverPort }: Pick<EdgeRedFact, "client" | "server" | "serverPort">): string {
  return `${client.kind}\n${client.name}\n${server.kind}\n${server.name}\n${serverPort}`;
}
