/** The part of the colony's backend that is about requests. */

import type { Clock } from "../../base/clock.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { queryConnections, queryEdgeRed, queryRed, queryServiceCpu, queryTrafficLosses } from "../../store/queries/index.ts";
import type { ColonyBackend } from "../../tools/index.ts";
import type { DiscoveryLoop } from "../discovery/discovery-loop.ts";

export type TrafficBackend = Pick<ColonyBackend, "red" | "edgeRed" | "connections" | "trafficLosses" | "serviceCpu">;

export interface TrafficBackendOptions {
  store: ColonyStore;
  /** Names of the other ends come from what it made of connections. */
  discovery: Pick<DiscoveryLoop, "catchUp">;
  clock: Clock;
}

export function createTrafficBackend({ store, discovery, clock }: TrafficBackendOptions): TrafficBackend {
  const database = store.database.name;
  return {
    red: (request) => queryRed(store, { ...request, nowMs: clock.wallMs() }),
    edgeRed: async (request) => {
      await discovery.catchUp();
      return await queryEdgeRed(store, { ...request, nowMs: clock.wallMs(), database });
    },
    connections: async (request) => {
      await discovery.catchUp();
      return await queryConnections(store, { ...request, nowMs: clock.wallMs(), database });
    },
    trafficLosses: (request) => queryTrafficLosses(store, { ...request, nowMs: clock.wallMs() }),
    serviceCpu: () => queryServiceCpu(store, { nowMs: clock.wallMs() }),
  };
}
