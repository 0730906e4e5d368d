/** Routes on the agent's unix socket: status, runtime context, and registered services. */

import { CoralError } from "../base/errors.ts";
import { checkServiceSpec, type ServiceSpec } from "../config/index.ts";
import type {
  AgentStatus,
  ManagedServiceInfo,
  ManagedServiceList,
  RuntimeRefreshed,
  ServiceDisconnected,
  ServicesConnected,
} from "../tools/index.ts";
import type { Route } from "../transport/index.ts";
import type { ServiceFacts } from "./discovery/service-facts.ts";
import type { RuntimeWatch } from "./link/runtime-watch.ts";
import {
  type ConnectOutcome,
  type ManagedService,
  type ManagedServiceRegistry,
  protocolOf,
  type ServiceHealth,
} from "./managed/managed-services.ts";

export interface AgentRoutesOptions {
  status: () => Promise<AgentStatus>;
  /** Absent: no runtime routes. */
  runtime?: Pick<RuntimeWatch, "current" | "refresh">;
  /** Aborts when the agent stops. */
  signal?: AbortSignal;
  registry: ManagedServiceRegistry;
  healthOf: (port: number) => ServiceHealth | undefined;
  discoveredAt: ServiceFacts["discoveredAt"];
  /** Called after the list has changed. */
  onChange: () => void;
}

export function agentRoutes(options: AgentRoutesOptions): Route[] {
  return [
    {
      kind: "json",
      method: "GET",
      path: "/v1/status",
      permission: "read",
      handle: async () => ({ kind: "json", value: await options.status() }),
    },
    ...runtimeRoutes(options),
    {
      kind: "json",
      method: "GET",
      path: "/v1/services",
      permission: "read",
      handle: () => {
        const services = options.registry.list().map((service) => infoOf(service, options));
        return { kind: "json", value: { services: services.sort(byName) } satisfies ManagedServiceList };
      },
    },
    {
      kind: "json",
      method: "POST",
      path: "/v1/services",
      permission: "admin",
      handle: async ({ body }) => ({ kind: "json", value: await connect(readSpecs(body), options) }),
    },
    {
      kind: "json",
      method: "DELETE",
      path: "/v1/services/:name",
      permission: "admin",
      handle: async ({ params }) => ({ kind: "json", value: await disconnect(params["name"] ?? "", options) }),
    },
  ];
}

function runtimeRoutes({ runtime, signal = new AbortController().signal }: AgentRoutesOptions): Route[] {
  if (!runtime) return [];
  return [
    {
      kind: "json",
      method: "GET",
      path: "/v1/runtime",
      permission: "read",
      handle: () => ({ kind: "json", value: { runtime: runtime.current(), changes: [], isTold: true } satisfies RuntimeRefreshed }),
    },
    {
      kind: "json",
      method: "POST",
      path: "/v1/runtime/refresh",
      permission: "read",
      handle: async () => ({ kind: "json", value: (await runtime.refresh("requested", signal)) satisfies RuntimeRefreshed }),
    },
  ];
}

async function connect(specs: readonly ServiceSpec[], options: AgentRoutesOptions): Promise<ServicesConnected> {
  const { registry, discoveredAt, onChange } = options;
  // Before the change: afterwards a scan lists them as managed.
  const discovered = await Promise.all(specs.map((spec) => discoveredAt(spec.port, protocolOf(spec))));
  const outcomes = await registry.connect(specs);
  onChange();
  return {
    services: outcomes.map((outcome, index) => {
      const found = discovered[index];
      return { ...infoOf(outcome.service, options), outcome: outcomeKind(outcome, found !== undefined), discovered: found ?? null };
    }),
  };
}

function outcomeKind({ kind }: ConnectOutcome, wasDiscovered: boolean): ServicesConnected["services"][number]["outcome"] {
  if (kind !== "added") return kind;
  return wasDiscovered ? "promoted" : "registered";
}

async function disconnect(name: string, { registry, onChange }: AgentRoutesOptions): Promise<ServiceDisconnected> {
  const removed = await registry.disconnect(name);
  onChange();
  return { name, ports: removed.map((service) => service.port).sort((a, b) => a - b) };
}

function infoOf(service: ManagedService, { healthOf }: AgentRoutesOptions): ManagedServiceInfo {
  const { name, port, health = null, type = null, connectedAt } = service;
  return {
    name,
    port,
    health,
    type,
    connectedAt,
    check: healthOf(port) ?? { state: "unknown", detail: "not checked yet", checkedAt: null },
  };
}

function readSpecs(body: unknown): ServiceSpec[] {
  const services = typeof body === "object" && body !== null && "services" in body ? body.services : undefined;
  if (!Array.isArray(services) || services.length === 0)
    throw new CoralError({ code: "invalid", message: 'Cannot connect services: the request has no list "services"' });
  const specs = services.map(checkServiceSpec);
  const ports = new Set<number>();
  for (const { name, port } of specs) {
    if (ports.has(port))
      throw new CoralError({ code: "invalid", message: `Cannot connect service "${name}": port ${port} is given twice` });
    ports.add(port);
  }
  return specs;
}

function byName(a: ManagedServiceInfo, b: ManagedServiceInfo): number {
  return a.name.localeCompare(b.name) || a.port - b.port;
}
