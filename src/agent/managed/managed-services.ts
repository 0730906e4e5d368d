/** The services that users registered with `coral connect`: kept in a file of their own, so that they survive restarts of the agent. */

import { readFile, rename } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { checkServiceSpec, type FileOwner, type ServiceSpec, writePrivateFile } from "../../config/index.ts";

export interface ManagedService extends ServiceSpec {
  /** ISO 8601. */
  connectedAt: string;
}

/** The outcome of a managed service's check. */
export interface ServiceHealth {
  /** `unknown` until checks agree, and for what cannot be checked. */
  state: "healthy" | "unhealthy" | "unknown";
  /** What the last check found, ready to print: `HTTP 503 of /health`, `connection refused`. */
  detail: string;
  /** Of the last check, ISO 8601; null before the first. */
  checkedAt: string | null;
}

/**
 * What the scan asks for each port: the user's word on its name, which beats every other. A port here means the agent's own network namespace;
 * a listener in another one is meant only when nobody listens on the port in the agent's own.
 */
export interface ManagedServices {
  byPort(port: number): ManagedService | undefined;
  list(): readonly ManagedService[];
  /** Undefined for a port that is not managed. */
  healthOf(port: number): ServiceHealth | undefined;
  /** Programs of `coral run` by process id. */
  launched?(): ReadonlyMap<number, string>;
}

/** A port is TCP's unless its type says otherwise. */
export function protocolOf({ type }: Pick<ServiceSpec, "type">): "tcp" | "udp" {
  return type === "udp" ? "udp" : "tcp";
}

/** What a service was before it was (re-)registered. */
export type ConnectOutcome =
  | { kind: "added"; service: ManagedService }
  | { kind: "updated"; service: ManagedService }
  | { kind: "unchanged"; service: ManagedService };

export interface ManagedServiceBookOptions {
  file: string;
  owner: FileOwner | undefined;
  wallMs: () => number;
  log: Logger;
}

const fileVersion = 1;
/** Each one is checked every few seconds. */
const maxServices = 1_000;

/** The list itself. A change counts once its file is written; changes happen one after the other. */
export class ManagedServiceBook {
  /** Why the file that was found could not be used, ready to print; undefined when all is well. */
  readonly problem: string | undefined;
  readonly #options: ManagedServiceBookOptions;
  #byPort: ReadonlyMap<number, ManagedService>;
  #lastChange: Promise<unknown> = Promise.resolve();

  private constructor(options: ManagedServiceBookOptions, services: readonly ManagedService[], problem: string | undefined) {
    this.#options = options;
    this.#byPort = new Map(services.map((service) => [service.port, service]));
    this.problem = problem;
  }

  /** A file that cannot be read is moved aside: an agent without its list still observes. */
  static async open(options: ManagedServiceBookOptions): Promise<ManagedServiceBook> {
    const { file, log } = options;
    let text: string;
    try {
      text = await readFile(file, "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return new ManagedServiceBook(options, [], undefined);
      throw new CoralError({ code: "unavailable", message: `Cannot read "${file}": ${String(error)}`, cause: error });
    }
    try {
      return new ManagedServiceBook(options, parseServices(text), undefined);
    } catch (error) {
      const movedTo = `${file}.damaged-${Math.round(options.wallMs())}`;
      await rename(file, movedTo);
      const why = error instanceof Error ? error.message : String(error);
      const problem = `The list of connected services was damaged (${why}) and was started anew; the damaged file is kept at ${movedTo}`;
      log.error(problem);
      return new ManagedServiceBook(options, [], problem);
    }
  }

  list(): readonly ManagedService[] {
    return [...this.#byPort.values()];
  }

  byPort(port: number): ManagedService | undefined {
    return this.#byPort.get(port);
  }

  /** All or none. A name may have several ports; a port has one name: throws `already-exists` when it has another. */
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
          message: `Cannot connect more services: ${maxServices} are the most that one agent looks after`,
        });
      }
      return { next, result: outcomes };
    });
  }

  /** Every port of the name. Throws `not-found` when there is none. */
  disconnect(name: string): Promise<ManagedService[]> {
    return this.#change(() => {
      const removed = this.list().filter((service) => service.name === name);
      if (removed.length === 0) {
        const names = [...new Set(this.list().map((service) => service.name))];
        const known =
          names.length === 0 ? "none is connected" : `connected are ${names.slice(0, 10).join(", ")}${names.length > 10 ? ", …" : ""}`;
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
    // The next change waits for this one, whatever becomes of it.
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
    throw new CoralError({ code: "corrupt", message: `its version is ${JSON.stringify(version)}, not ${fileVersion}` });
  if (!Array.isArray(services)) throw new CoralError({ code: "corrupt", message: "it has no list of services" });
  return services.slice(0, maxServices).map((item: unknown) => {
    const { connectedAt } = item as { connectedAt?: unknown };
    const isTime = typeof connectedAt === "string" && !Number.isNaN(Date.parse(connectedAt));
    return { ...checkServiceSpec(item), connectedAt: isTime ? connectedAt : new Date(0).toISOString() };
  });
}
