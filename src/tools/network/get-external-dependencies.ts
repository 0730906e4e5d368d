import * as z from "zod";
import type { EdgeFact } from "../../model/edges.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { limitInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { cutList } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { dependencyListSchema, type ExternalDependency } from "../schemas/network.ts";
import { trafficOf } from "./edge-traffic.ts";
import { matchesOutside, outsideName } from "./external-names.ts";
import { publicOrPrivate } from "./public-or-private.ts";
import { networkInput, readNetwork } from "./read-network.ts";

const addressesMax = 10;
const servicesMax = 50;

export const getExternalDependencies = defineTool({
  name: "coral_get_external_dependencies",
  title: "External dependencies",
  description:
    "List the external services and APIs that this application calls, by name (S3, Stripe, a host), with their callers, volume, and the build that first called them.",
  input: z.object({
    ...networkInput,
    match: z.string().min(1).optional().describe("part of a name, provider or product, such as s3"),
    since: sinceInput("24h", { minMs: 60_000 }),
    limit: limitInput(50, 1_000),
  }),
  output: dependencyListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { facts, notes } = await readNetwork(backend, input, context);
    const groups = new Map<string, EdgeFact[]>();
    for (const edge of facts.edges) {
      if (edge.class !== "EGRESS" || (input.match !== undefined && !matchesOutside(edge.server, input.match))) continue;
      const name = outsideName(edge.server);
      const group = groups.get(name);
      if (group) group.push(edge);
      else groups.set(name, [edge]);
    }
    const dependencies = [...groups]
      .map(([name, edges]) => dependencyOf(name, edges, facts.windowMs))
      .sort((a, b) => b.connections - a.connections || a.name.localeCompare(b.name));
    const shown = cutList(dependencies, input.limit, "dependencies", "narrow with service or match, or raise limit");
    return {
      output: { sinceMs: input.since, total: dependencies.length, dependencies: shown.items },
      completeness: completenessOf([...notes, ...shown.notes]),
    };
  },
});

function dependencyOf(name: string, edges: EdgeFact[], windowMs: number): ExternalDependency {
  const addresses = [...new Set(edges.map((edge) => edge.server.name))];
  const resolved = edges.find((edge) => edge.server.resolved)?.server.resolved ?? null;
  return {
    name,
    nameMethod: resolved?.method ?? null,
    provider: resolved?.provider ?? null,
    product: resolved?.product ?? null,
    scope: addresses.some((address) => publicOrPrivate(address) === "public") ? "public" : "private",
    ports: [...new Set(edges.map((edge) => edge.serverPort))].sort((a, b) => a - b),
    addresses: addresses.slice(0, addressesMax),
    addressCount: addresses.length,
    confidence: Math.max(...edges.map((edge) => edge.confidence)),
    services: callersOf(edges, windowMs),
    ...trafficOf(edges, windowMs),
  };
}

function callersOf(edges: EdgeFact[], windowMs: number): ExternalDependency["services"] {
  const names = [...new Set(edges.map((edge) => edge.client.name))];
  return names
    .map((service) => {
      const own = edges.filter((edge) => edge.client.name === service);
      const { connections, connectionsPerMinute, bytesToServer, bytesToClient, firstSeenAt, lastSeenAt } = trafficOf(own, windowMs);
      const first = own.reduce((a, b) => (b.firstSeenAt < a.firstSeenAt ? b : a));
      return {
        service,
        connections,
        connectionsPerMinute,
        bytesToServer,
        bytesToClient,
        firstSeenAt,
        lastSeenAt,
        firstBuild: first.firstBuild,
      };
    })
    .sort((a, b) => b.connections - a.connections || a.service.localeCompare(b.service))
    .slice(0, servicesMax);
}
