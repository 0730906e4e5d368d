/** Opens the health watch, the incident watch and the webhook. */

import type { ColonyStore } from "../store/colony/index.ts";
import { event, red, spanRed } from "../store/signals/index.ts";
import { briefOf, type ColonyBackend } from "../tools/index.ts";
import type { ColonyContext } from "./core/colony-context.ts";
import { HealthWatch } from "./health/health-watch.ts";
import type { ServiceDirectory } from "./identity/service-directory.ts";
import { labelled } from "./incidents/incident-backend.ts";
import { IncidentWatch } from "./incidents/incident-watch.ts";
import { Webhook } from "./incidents/webhook.ts";

export interface IncidentParts {
  store: ColonyStore;
  backend: ColonyBackend;
  services: Pick<ServiceDirectory, "names">;
}

export function openIncidents(context: ColonyContext, { store, backend, services }: IncidentParts) {
  const { clock } = context;
  const log = context.log.child("incidents");
  const newest = (): number => store.lastIngestOf(red, spanRed, event);
  const webhook = new Webhook({ target: () => context.config.incidents.webhook, log });
  const incidents = new IncidentWatch({
    store,
    backend,
    names: () => services.names(),
    newest,
    settings: () => context.config.incidents,
    notify: (event, incident, labelOf) => {
      const { id, name, environment } = context.config;
      webhook.send(event, { colony: { id, name, environment }, incident: briefOf(labelled(incident, labelOf), clock.wallMs()) });
    },
    clock,
    log,
  });
  const serviceId = async (label: string): Promise<string> => (await services.names()).textsOf(label)[0] ?? label;
  const health = new HealthWatch({ store, backend, serviceId, newest, clock, log: context.log.child("health") });
  return { health, incidents, webhook };
}
