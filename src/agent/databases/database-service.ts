/**
 * Inspects databases of this host for the colony, with stored credentials only. Inspections run one at a time and are audited; their results are
 * shared for five seconds.
 */

import { performance } from "node:perf_hooks";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { inspectDatabase } from "../../databases/index.ts";
import type { DatabaseCredentials, DatabaseFacts } from "../../model/database-facts.ts";
import type { InspectDatabaseRequest } from "../../proto/coral/agent/v1/agent_pb.ts";
import { toConnectError } from "../../transport/index.ts";
import type { AuditNote } from "../audit/audit-log.ts";
import { CredentialsStore, type CredentialsStoreOptions } from "./credentials-store.ts";

export interface DatabaseServiceOptions {
  /** Addresses besides loopback on which the newest scan saw the port. */
  addressesOf: (port: number) => Promise<readonly string[]>;
  audit: (note: AuditNote) => Promise<unknown>;
  clock: Clock;
  /** For tests. Default: logs in to the database. */
  inspect?: typeof inspectDatabase;
}

interface Inspection {
  readAt: string;
  readMs: number;
  facts: DatabaseFacts;
}

/** Results are reused for this time: one incident causes several requests at once. */
const sharedMs = 5_000;
/** Shared results, by port and statement. */
const maxRecent = 64;
/** Queued inspections; further requests fail with `exhausted`. */
const maxWaiting = 8;
/** Ports of one service that are inspected. */
const maxPorts = 16;

export class DatabaseService {
  readonly #options: DatabaseServiceOptions;
  readonly #credentials: CredentialsStore;
  readonly #recent = new Map<string, Inspection>();
  readonly #slot = new Semaphore(1);

  private constructor(options: DatabaseServiceOptions, credentials: CredentialsStore) {
    this.#options = options;
    this.#credentials = credentials;
  }

  static async open(options: DatabaseServiceOptions & CredentialsStoreOptions): Promise<DatabaseService> {
    return new DatabaseService(options, await CredentialsStore.open(options));
  }

  /** Logs in and reads the facts once. Neither the credentials nor the result are kept. */
  async check(port: number, credentials: DatabaseCredentials): Promise<DatabaseFacts> {
    return await this.#readFacts(port, credentials, null, new AbortController().signal);
  }

  async keep(port: number, credentials: DatabaseCredentials): Promise<void> {
    await this.#credentials.set(port, credentials);
    this.#recent.clear();
  }

  async forget(ports: readonly number[]): Promise<void> {
    await this.#credentials.remove(ports);
    this.#recent.clear();
  }

  async inspect(request: InspectDatabaseRequest, signal: AbortSignal): Promise<{ answer: string }> {
    try {
      const ports = request.ports.slice(0, maxPorts).filter((port) => this.#credentials.of(port) !== undefined);
      if (ports.length === 0)
        throw new CoralError({ code: "not-found", message: `Cannot inspect "${request.service}": this agent has no credentials for it` });
      if (this.#slot.waiting >= maxWaiting)
        throw new CoralError({
          code: "exhausted",
          message: `Cannot inspect "${request.service}": too many requests are queued; try again in a few seconds`,
        });
      return await this.#slot.run(async () => {
        const found: { port: number; readAt: string; facts: DatabaseFacts }[] = [];
        for (const port of ports) {
          const { readAt, facts } = await this.#shared(port, request, signal);
          found.push({ port, readAt, facts });
        }
        return { answer: JSON.stringify(found) };
      });
    } catch (error) {
      throw toConnectError(error);
    }
  }

  async #shared(port: number, { statement, caller, service }: InspectDatabaseRequest, signal: AbortSignal): Promise<Inspection> {
    const { audit, clock } = this.#options;
    const key = `${port} ${statement}`;
    const known = this.#recent.get(key);
    if (known && clock.monotonicMs() - known.readMs < sharedMs) return known;
    const login = this.#credentials.of(port);
    if (login === undefined)
      throw new CoralError({ code: "not-found", message: `Cannot inspect "${service}": its credentials have just been removed` });
    const startedMs = performance.now();
    const record = (reason: string): Promise<unknown> =>
      audit({
        kind: "database",
        phase: "ended",
        caller,
        through: "colony",
        target: `service ${service}`,
        command: statement === "" ? "read statistics and locks" : `read statistics and locks, explain ${statement}`,
        reason,
        exit_code: reason === "answered" ? 0 : 1,
        duration_ms: Math.round(performance.now() - startedMs),
      });
    try {
      const facts = await this.#readFacts(port, login, statement === "" ? null : statement, signal);
      await record("answered");
      return this.#remember(key, { readAt: new Date(clock.wallMs()).toISOString(), readMs: clock.monotonicMs(), facts });
    } catch (error) {
      await record(CoralError.from(error).code);
      throw error;
    }
  }

  #remember(key: string, inspection: Inspection): Inspection {
    this.#recent.delete(key);
    this.#recent.set(key, inspection);
    for (const oldest of this.#recent.keys()) {
      if (this.#recent.size <= maxRecent) break;
      this.#recent.delete(oldest);
    }
    return inspection;
  }

  async #readFacts(port: number, credentials: DatabaseCredentials, statement: string | null, signal: AbortSignal): Promise<DatabaseFacts> {
    const { inspect = inspectDatabase, addressesOf } = this.#options;
    return await inspect({ port, addresses: await addressesOf(port), credentials, statement, signal });
  }
}
