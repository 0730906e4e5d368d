/** Backend methods for incidents: stored rows, with names instead of ids. */

import type { Clock } from "../../base/clock.ts";
import type { Incident } from "../../model/incident.ts";
import {
  type ColonyStore,
  countIncidents,
  deleteObjectives,
  loadIncidents,
  loadObjectives,
  saveObjective,
} from "../../store/colony/index.ts";
import { queryRequestTotals } from "../../store/queries/index.ts";
import type { ColonyBackend } from "../../tools/index.ts";
import type { IncidentNames } from "./incident-watch.ts";

export type IncidentBackend = Pick<
  ColonyBackend,
  "incidents" | "incident" | "objectives" | "setObjective" | "removeObjective" | "requestTotals"
>;

export interface IncidentBackendOptions {
  store: ColonyStore;
  names: () => Promise<IncidentNames>;
  clock: Clock;
}

export function createIncidentBackend({ store, names, clock }: IncidentBackendOptions): IncidentBackend {
  return {
    incidents: async ({ sinceMs, ...request }) => {
      const [found, { open }] = await Promise.all([
        loadIncidents(store, { ...request, fromMs: clock.wallMs() - sinceMs }),
        countIncidents(store),
      ]);
      const { labelOf } = await bound(names);
      return { incidents: found.map((one) => labelled(one, labelOf)), open };
    },
    incident: async (number) => {
      const [found] = await loadIncidents(store, { number, limit: 1 });
      const { labelOf } = await bound(names);
      return found && labelled(found, labelOf);
    },
    objectives: async () => {
      const { labelOf } = await bound(names);
      return (await loadObjectives(store)).map((one) => ({ ...one, service: labelOf(one.service) }));
    },
    setObjective: async (request, { caller = "" }) => {
      const { textsOf } = await bound(names);
      const objective = { ...request, setBy: caller, setMs: clock.wallMs() };
      await saveObjective(store, { ...objective, service: textsOf(request.service)[0] ?? request.service });
      return objective;
    },
    removeObjective: async ({ service, route }) => {
      const { textsOf } = await bound(names);
      return await deleteObjectives(store, [...textsOf(service)], route);
    },
    requestTotals: async ({ services, ranges }) => {
      const { textsOf, labelOf } = await bound(names);
      const rows = await queryRequestTotals(store, { services: [...new Set(services.flatMap((service) => textsOf(service)))], ranges });
      return rows.map((row) => ({ ...row, service: labelOf(row.service) }));
    },
  };
}

async function bound(names: () => Promise<IncidentNames>) {
  const known = await names();
  return { labelOf: (text: string): string => known.labelOf(text), textsOf: (label: string): readonly string[] => known.textsOf(label) };
}

export function labelled(incident: Incident, labelOf: (text: string) => string): Incident {
  const { cause, symptoms, changes } = incident;
  return {
    ...incident,
    symptoms: symptoms.map((symptom) => ({ ...symptom, service: labelOf(symptom.service) })),
    changes: changes.map((change) => ({ ...change, service: labelOf(change.service) })),
    cause: cause && { ...cause, service: labelOf(cause.service), chain: cause.chain.map(labelOf) },
  };
}
