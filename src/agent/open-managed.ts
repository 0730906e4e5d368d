/** Connects the registry of managed services, their health checks, and the events of the checks. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { FileOwner } from "../config/index.ts";
import { type AgentStore } from "../store/agent/index.ts";
import { event, type RowOf } from "../store/signals/index.ts";
import { createServiceFacts, type ServiceFacts } from "./discovery/service-facts.ts";
import { type HealthChange, type HealthCheckSettings, HealthChecks } from "./managed/health-checks.ts";
import { ManagedServiceRegistry, type ManagedServices, protocolOf } from "./managed/managed-services.ts";
import { createLaunchedPrograms, type LaunchedPrograms } from "./naming/launched-programs.ts";
import type { ServiceIdentities } from "./naming/service-identities.ts";

export interface OpenManagedOptions {
  file: string;
  identities: ServiceIdentities;
  owner: FileOwner | undefined;
  store: Pick<AgentStore, "query" | "append">;
  settings: () => HealthCheckSettings;
  clock: Clock;
  log: Logger;
}

/** The parts of managed services. */
export interface Managed {
  registry: ManagedServiceRegistry;
  facts: ServiceFacts;
  checks: HealthChecks;
  /** For scans. */
  services: ManagedServices;
  launched: LaunchedPrograms;
  notes(): string[];
}

export async function openManaged(options: OpenManagedOptions): Promise<Managed> {
  const { store, clock, log } = options;
  const registry = await ManagedServiceRegistry.open({ file: options.file, owner: options.owner, wallMs: () => clock.wallMs(), log });
  const launched = createLaunchedPrograms();
  const facts = createServiceFacts(store);
  const checks = new HealthChecks({
    services: () => registry.list(),
    settings: options.settings,
    addressesOf: (port) => facts.addressesOf(port),
    lastReported: (service) => facts.lastHealth(service),
    report: async (change) => {
      log[change.after === "healthy" ? "info" : "warn"](messageOf(change));
      await store.append(event, [eventOf(change, options.identities, clock)]);
    },
    clock,
    log,
  });
  return {
    registry,
    facts,
    checks,
    launched,
    services: {
      list: () => registry.list(),
      byPort: (port) => registry.byPort(port),
      healthOf: (port) => checks.healthOf(port),
      launched: () => launched.names,
    },
    notes: () => (registry.problem === undefined ? [] : [registry.problem]),
  };
}

function eventOf(change: HealthChange, identities: ServiceIdentities, clock: Clock): RowOf<typeof event.columns> {
  const { service, before, after, detail } = change;
  return {
    at: Math.round(clock.wallMs() * 1_000),
    mono_ms: Math.round(clock.monotonicMs()),
    kind: "service-health-changed",
    severity: after === "healthy" ? "info" : "error",
    service: identities.lastAt(service.port, protocolOf(service)).id,
    pid: null,
    message: messageOf(change),
    details: JSON.stringify({ name: service.name, port: service.port, check: service.health ?? "tcp", before, after, detail }),
  };
}

function messageOf({ service, after, detail }: HealthChange): string {
  return `${service.name} on port ${service.port} is ${after}${after === "healthy" ? " again" : ""}: ${detail}`;
}
