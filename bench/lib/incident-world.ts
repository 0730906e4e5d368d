/** The real watch of incidents over the store of a simulated world. */

import { createLogger } from "../../src/base/log.ts";
import { IncidentWatch } from "../../src/colony/incidents/incident-watch.ts";
import type { Incident } from "../../src/model/incident.ts";
import { loadIncidents } from "../../src/store/colony/index.ts";
import { BaselineCache, queryDiagnosis, queryEvents, queryOnset, queryServices, querySummary } from "../../src/store/queries/index.ts";
import { agentOf, colonyOf } from "../../src/tools/sample-colony.fixture.ts";
import type { HealthWorld } from "./health-world.ts";

/** A simulated world with the colony's incident watch. */
export interface WatchedWorld {
  watch: IncidentWatch;
  /** All incidents so far, open ones first. */
  incidents: () => Promise<Incident[]>;
}

export function watchIncidents(world: HealthWorld, agents: readonly string[]): WatchedWorld {
  const { store } = world;
  const memory = new BaselineCache();
  const clock = { wallMs: () => world.nowMs, monotonicMs: () => world.nowMs };
  const backend = colonyOf({
    nowMs: () => world.nowMs,
    agents: async () => agents.map((agentId) => agentOf(agentId)),
    summary: async (request) => ({
      ...(await querySummary(store, { ...request, nowMs: world.nowMs }, memory)),
      nowMs: world.nowMs,
      aliases: new Map(),
    }),
    services: async (request) => await queryServices(store, request),
    events: async (request) => await queryEvents(store, { ...request, nowMs: world.nowMs }),
    diagnosisOnset: (request) => queryOnset(store, request),
    diagnosisFacts: (times) => queryDiagnosis(store, times),
    keepEvidence: () => Promise.resolve(),
  });
  const names = { labelOf: (text: string) => text, idOf: (text: string) => text, textsOf: (label: string) => [label] };
  const watch = new IncidentWatch({
    ...{
      store,
      backend,
      clock,
      log: createLogger("bench", "warn", ({ message, fields }) => process.stderr.write(`${message} ${String(fields["error"] ?? "")}\n`)),
      notify: () => {},
    },
    names: () => Promise.resolve(names),
    newest: () => clock.wallMs(),
    settings: () => ({ isEnabled: true, closeAfterMs: 120_000 }),
  });
  return { watch, incidents: () => loadIncidents(store, { limit: 1_000 }) };
}
