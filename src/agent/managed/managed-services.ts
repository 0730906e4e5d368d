/** Services that users registered with `coral connect`, kept in a file so that they survive restarts. */

import { readFile, rename } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { checkServiceSpec, type FileOwner, type ServiceSpec, writePrivateFile } from "../../config/index.ts";

/** A registered service, as stored in the file. */
export interface ManagedService extends ServiceSpec {
  /** ISO 8601. */
  connectedAt: string;
}

/** The outcome of a managed service's check. */
export interface ServiceHealth {
  /** `unknown` until the first decision, and for services that cannot be checked. */
  state: "healthy" | "unhealthy" | "unknown";
  /** Result of the last check: `HTTP 503 of /health`, `connection refused`. */
  detail: string;
  /** Time of the last check, ISO 8601; null before the first. */
  checkedAt: string | null;
}

/**
 * User-given names by port; they win over all others. A port means the agent's own network namespace; a listener in another namespace
 * matches only when nothing listens on the port in the agent's own.
 */
export interface ManagedServices {
  byPort(port: number): ManagedService | undefined;
  list(): readonly ManagedService[];
  /** Undefined for a port that is not managed. */
  healthOf(port: number): ServiceHealth | undefined;
  /** Programs of `coral run` by process id. */
  launched?(): ReadonlyMap<number, string>;
}

/** TCP unless the type is `udp`. */
export function protocolOf({ type }: Pick<ServiceSpec, "type">): "tcp" | "udp" {
  return type === "udp" ? "udp" : "tcp";
}

/** How a registration changed the list. */
export type ConnectOutcome =
  | { kind: "added"; service: ManagedService }
  | { kind: "updated"; service: ManagedService }
  | { kind: "unchanged"; service: ManagedService };

export interface ManagedServiceRegistryOptions {
  file: string;
  owner: FileOwner | undefined;
  wallMs: () => number;
  log: Logger;
}

/** Version of the file's JSON; another one counts as damaged. */
const fileVersion = 1;
/** Bounds the number of checks: each service is checked every few seconds. */
const maxServices = 1_000;

/** The list of services. A change takes effect once its file is written; changes are serialised. */
export class ManagedServiceRegistry {
  /** A sentence when the stored file was damaged; undefined otherwise. */
  readonly problem: string | undefined;
  readonly #options: ManagedServiceRegistryOptions;
  #byPort: ReadonlyMap<number, ManagedService>;
  #lastChange: Promise<unknown> = Promise.resolve();

  private constructor(options: ManagedServiceRegistryOptions, services: readonly ManagedService[], problem: string | undefined) {
    this.#options = options;
    this.#byPort = new Map(services.map((service) => [service.port, service]));
    this.problem = problem;
  }

  /** Moves a damaged file aside and starts with an empty list: the agent keeps observing. */
  static async open(options: ManagedServiceRegistryOptions): Promise<ManagedServiceRegistry> {
    const { file, log } = options;
    let text: string;
    try {
      text = await readFile(file, "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return new ManagedServiceRegistry(options, [], undefined);
      throw new CoralError({ code: "unavailable", message: `Cannot read "${file}": ${String(error)}`, cause: error });
    }
    try {
      return new ManagedServiceRegistry(options, parseServices(text), undefined);
    } catch (error) {
      const movedTo = `${file}.damaged-${Math.round(options.wallMs())}`;
      await rename(file, movedTo);
      const reason = error instanceof Error ? error.message : String(error);
      const problem = `The list of connected services was damaged (${reason}) and is now empty; the damaged file is kept at ${movedTo}`;
      log.error(problem);
      return new ManagedServiceRegistry(options, [], problem);
    }
  }

  list(): readonly ManagedService[] {
    return [...this.#byPort.values()];
  }

  byPort(port: number): ManagedService | undefined {
    return this.#byPort.get(port);
  }

  /** Adds all or none. A name may have several ports; throws `already-exists` when a port has another name. */
  connect(specs: readonly ServiceSpec[]): Promise<ConnectOutcome[]> {
    return this.#change(() => {
      const next = new Map(this.#byPort);
      const outcomes = specs.map((spec): ConnectOutcome => {
        const before = next.get(spec.port);
        if (before !== undefined && before.name !== spec.name) throw portTaken(spec, before);
        const service = { ...spec, connectedAt: before?.connectedAt ?? new Date(this.#options.wallMs()).toISOString() };
        next.set(spec.port, service);
        if (before === undefined) return { kind: "added", service };
        return { kind: before.health === spec.health && before.type === spec.type ? "unchanged" : "updated", service };
      });
      if (next.size > maxServices) {
        throw new CoralError({
          code: "exhausted",
          message: `Cannot connect more services: an agent manages at most ${maxServices}; disconnect some first`,
        });
      }
      return { next, result: outcomes };
    });
  }

  /** Removes every port of the name. Throws `not-found` when there is none. */
  disconnect(name: string): Promise<ManagedService[]> {
    return this.#change(() => {
      const removed = this.list().filter((service) => service.name === name);
      if (removed.length === 0) {
        const names = [...new Set(this.list().map((service) => service.name))];
        const known =
          names.length === 0
            ? "no services are connected"
            : `connected services: ${names.slice(0, 10).join(", ")}${names.length > 10 ? ", …" : ""}`;
        throw new CoralError({ code: "not-found", message: `Cannot disconnect service "${name}": it is not connected here; ${known}` });
      }
      return { next: new Map([...this.#byPort].filter(([, service]) => service.name !== name)), result: removed };
    });
  }

  #change<T>(make: () => { next: Map<number, ManagedService>; result: T }): Promise<T> {
    const run = async (): Promise<T> => {
      const { next, result } = make();
      const { file, owner } = this.#options;
      const text = `${JSON.stringify({ version: fileVersion, services: [...next.values()] }, undefined, 2)}\n`;
      await writePrivateFile(file, text, { owner });
      this.#byPort = next;
      return result;
    };
    const done = this.#lastChange.then(run, run);
    // The next change waits for this one, even if it fails.
    this.#lastChange = done.catch(() => undefined);
    return done;
  }
}

function portTaken(spec: ServiceSpec, before: ManagedService): CoralError {
  return new CoralError({
    code: "already-exists",
    message: `Cannot connect service "${spec.name}": port ${spec.port} is connected as "${before.name}"; first run "coral disconnect ${before.name}"`,
    details: { port: spec.port, name: before.name },
  });
}

function parseServices(text: string): ManagedService[] {
  const value: unknown = JSON.parse(text);
  const { version, services } = (typeof value === "object" && value !== null ? value : {}) as { version?: unknown; services?: unknown };
  if (version !== fileVersion)
    throw new CoralError({ code: "corrupt", message: `version is ${JSON.stringify(version)}, expected ${fileVersion}` });
  if (!Array.isArray(services)) throw new CoralError({ code: "corrupt", message: "no list of services" });
  return services.slice(0, maxServices).map((item: unknown) => {
    const { connectedAt } = item as { connectedAt?: unknown };
    const isTime = typeof connectedAt === "string" && !Number.isNaN(Date.parse(connectedAt));
    return { ...checkServiceSpec(item), connectedAt: isTime ? connectedAt : new Date(0).toISOString() };
  });
}
