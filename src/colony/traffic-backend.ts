/** The part of the colony's backend that is about requests. */

import type { ColonyBackend } from "../tools/index.ts";

export type TrafficBackend = Pick<ColonyBackend, "red" | "edgeRed" | "connections" | "trafficLosses" | "serviceCpu">;

export function createTrafficBackend(): TrafficBackend {
  return {
    red: async ({ sinceMs }) => ({ rows: [], total: 0, windowMs: sinceMs, bucketMs: 0 }),
    edgeRed: async ({ sinceMs }) => ({ edges: [], windowMs: sinceMs }),
    connections: async () => ({ rows: [], total: 0 }),
    trafficLosses: async () => [],
    serviceCpu: async () => [],
  };
}
