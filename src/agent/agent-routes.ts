/** Routes on the agent's unix socket: status, runtime context, and registered services. */

import { CoralError } from "../base/errors.ts";
import { checkCredentials, checkServiceSpec, engineOf, type ServiceSpec } from "../config/index.ts";
import type { DatabaseCredentials, DatabaseFacts } from "../model/database-facts.ts";
import type {
  AgentStatus,
  DatabaseConnected,
  ManagedServiceInfo,
  ManagedServiceList,
  RuntimeRefreshed,
  ServiceDisconnected,
  ServicesConnected,
} from "../tools/index.ts";
import type { Route } from "../transport/index.ts";
import type { DatabaseService } from "./databases/database-service.ts";
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
  databases: Pick<DatabaseService, "check" | "keep" | "forget">;
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
      handle: async ({ body }) => ({ kind: "json", value: await connect(readSpecs(body), credentialsIn(body), options) }),
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

async function connect(specs: readonly ServiceSpec[], given: object | undefined, options: AgentRoutesOptions): Promise<ServicesConnected> {
  const { registry, databases, discoveredAt, onChange } = options;
  // Before the change: afterwards a scan lists them as managed.
  const discovered = await Promise.all(specs.map((spec) => discoveredAt(spec.port, protocolOf(spec))));
  const [spec] = specs;
  const login = given === undefined || spec === undefined ? undefined : loginOf(spec, given, discovered[0]?.name);
  // A wrong password changes nothing.
  const facts = login === undefined || spec === undefined ? null : await databases.check(spec.port, login);
  const outcomes = await registry.connect(specs);
  if (login !== undefined && spec !== undefined) await databases.keep(spec.port, login);
  onChange();
  return {
    services: outcomes.map((outcome, index) => {
      const found = discovered[index];
      return {
        ...infoOf(outcome.service, options),
        outcome: outcomeKind(outcome, found !== undefined),
        discovered: found ?? null,
        ...(facts && { database: connectedOf(facts) }),
      };
    }),
  };
}

function outcomeKind({ kind }: ConnectOutcome, wasDiscovered: boolean): ServicesConnected["services"][number]["outcome"] {
  if (kind !== "added") return kind;
  return wasDiscovered ? "promoted" : "registered";
}

function loginOf(spec: ServiceSpec, given: object, discovered: string | undefined): DatabaseCredentials {
  const engine = engineOf([spec.type, spec.name, discovered], spec.port);
  if (engine === undefined)
    throw new CoralError({
      code: "usage",
      message: `cannot use credentials for "${spec.name}": unknown database type; add postgres, mysql or redis, as in ${spec.name}:${spec.port}::postgres`,
    });
  return checkCredentials({ ...given, engine });
}

function connectedOf(facts: DatabaseFacts): DatabaseConnected {
  const { engine, version, user, canWrite, notes } = facts;
  return { engine, version, user, canWrite, notes };
}

async function disconnect(name: string, { registry, databases, onChange }: AgentRoutesOptions): Promise<ServiceDisconnected> {
  const removed = await registry.disconnect(name);
  await databases.forget(removed.map(({ port }) => port));
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
    throw new CoralError({ code: "invalid", message: 'Cannot connect services: the request has no "services" list' });
  const specs = services.map(checkServiceSpec);
  const ports = new Set<number>();
  for (const { name, port } of specs) {
    if (ports.has(port))
      throw new CoralError({ code: "invalid", message: `Cannot connect service "${name}": port ${port} is given twice` });
    ports.add(port);
  }
  return specs;
}

/** Of the only service in the request. */
function credentialsIn(body: unknown): object | undefined {
  const value = typeof body === "object" && body !== null && "credentials" in body ? body.credentials : undefined;
  if (value === undefined) return undefined;
  const { services } = body as { services: unknown[] };
  if (typeof value !== "object" || value === null || services.length !== 1)
    throw new CoralError({ code: "invalid", message: "Cannot connect services: credentials are for one service" });
  return value;
}

function byName(a: ManagedServiceInfo, b: ManagedServiceInfo): number {
  return a.name.localeCompare(b.name) || a.port - b.port;
}
