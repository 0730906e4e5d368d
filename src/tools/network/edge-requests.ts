/** Adds requests to edges, for answers that are built from connections. */

import type { EdgeFact, EdgeRedFact, EdgeRedFacts } from "../../model/edges.ts";
import type { TopologyEdge } from "../schemas/network.ts";
import { ratio } from "../traffic/red-rows.ts";

export type EdgeRequests = NonNullable<TopologyEdge["requests"]>;

/** Looks up the requests of an edge. */
export class EdgeRequestIndex {
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

  /** Whether hooks saw requests of an edge. Spans may have some as well. */
  hasHooked(facts: readonly EdgeFact[]): boolean {
    return facts.some((fact) => {
      const found = this.#factOf(fact);
      return found !== undefined && found.bySpans === undefined && found.requests > 0;
    });
  }

  /**
   * Sums the facts of one displayed edge; null without requests. Each fact counts once: every address of an external name brings
   * its own requests. Percentiles cannot be added; those of the fact with the most requests are used.
   */
  of(facts: readonly EdgeFact[]): EdgeRequests | null {
    const found = new Set(facts.flatMap((fact) => this.#factOf(fact) ?? []));
    let count = 0;
    let errors = 0;
    let perSecond = 0;
    let main: EdgeRedFact | undefined;
    for (const edge of found) {
      count += edge.requests;
      errors += edge.errors;
      perSecond += (edge.requests * 1_000) / Math.max(1, edge.bySpans?.windowMs ?? this.#windowMs);
      if (!main || edge.requests > main.requests) main = edge;
    }
    if (!main || count === 0) return null;
    return {
      protocol: main.protocol,
      count: Math.round(count),
      perSecond: Number(perSecond.toPrecision(3)),
      errorRatio: ratio(errors, count),
      p50Us: main.p50Us,
      p95Us: main.p95Us,
      p99Us: main.p99Us,
    };
  }
}

/** DNS is the only request protocol over UDP. */
function fits(transport: string, protocol: string): boolean {
  return transport.startsWith("udp") === (protocol === "dns");
}

function keyOf({ client, server, serverPort }: Pick<EdgeRedFact, "client" | "server" | "serverPort">): string {
  return `${client.kind}\n${client.name}\n${server.kind}\n${server.name}\n${serverPort}`;
}
