/** Identities of services across scans, so that ids do not change while their processes run. */

import { originOfPort } from "../../host/index.ts";
import type { ServiceOrigin } from "../../model/service-identity.ts";

/** A process: pid and start time, because pids are reused. */
export interface ProcessKey {
  pid: number;
  startTicks: number;
}

/** Processes with a decided port; those that exited are dropped first. */
const maxRemembered = 16_384;

/** Decisions are kept while their process runs, even if a later scan would decide differently. */
export class ServiceIdentities {
  readonly #hostname: string;
  readonly #decided = new Map<string, number>();
  /** By protocol and port, from the newest scan. */
  #now = new Map<string, ServiceOrigin>();
  /** By protocol and port: services that users registered, including those that no longer listen. */
  readonly #lastAt = new Map<string, ServiceOrigin>();

  constructor(hostname: string) {
    this.#hostname = hostname;
  }

  /** The port that identifies a process: the first one found, even if the process opens a lower one later. Null while it has none. */
  portOf({ pid, startTicks }: ProcessKey, find: () => number | null): number | null {
    const key = `${pid} ${startTicks}`;
    const known = this.#decided.get(key);
    if (known !== undefined) return known;
    const port = find();
    if (port !== null) this.#decided.set(key, port);
    return port;
  }

  /** Call with each scan, before its listeners are named. */
  beginScan(isRunning: (process: ProcessKey) => boolean, isRegistered: (port: number) => boolean): void {
    this.#now = new Map();
    for (const key of this.#lastAt.keys()) if (!isRegistered(Number(key.split(" ")[1]))) this.#lastAt.delete(key);
    for (const key of this.#decided.keys()) {
      const [pid = 0, startTicks = 0] = key.split(" ").map(Number);
      if (!isRunning({ pid, startTicks }) || this.#decided.size > maxRemembered) this.#decided.delete(key);
    }
  }

  seenAt(port: number, protocol: string, origin: ServiceOrigin, isRegistered: boolean): void {
    const key = `${protocol} ${port}`;
    this.#now.set(key, origin);
    if (isRegistered) this.#lastAt.set(key, origin);
  }

  /** The service at a registered port, or the last one that was there; the port itself when there was none. */
  lastAt(port: number, protocol: string): ServiceOrigin {
    const key = `${protocol} ${port}`;
    return this.#now.get(key) ?? this.#lastAt.get(key) ?? this.atPort(port);
  }

  /** For a port whose owner cannot be read. */
  atPort(port: number): ServiceOrigin {
    return originOfPort(this.#hostname, port);
  }
}
