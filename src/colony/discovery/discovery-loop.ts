/** Periodically derives services and edges from agents' reports, and requests names of external addresses. */

import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { ColonyDiscoveryConfig } from "../../config/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { addressesWithoutName, DiscoveryCycle, type ResolvedEndpoint, storeEndpointNames } from "../../store/discovery/index.ts";
import { connection, serviceInstance } from "../../store/signals/index.ts";
import type { ColonyMetrics } from "../core/colony-metrics.ts";
import type { EndpointNames, NameLimits } from "./endpoint-names/endpoint-names.ts";

export interface DiscoveryLoopOptions {
  store: ColonyStore;
  /** Read before each cycle, so that a reloaded config applies at once. */
  config: () => ColonyDiscoveryConfig;
  names: EndpointNames;
  clock: Clock;
  log: Logger;
  metrics: Pick<ColonyMetrics, "discoveryCycle">;
}

/** When the last cycle is older than this, a query runs one first. */
const lateMs = 1_000;
/** Rest after an early cycle, as a multiple of its duration: early cycles use at most a third of the time. */
const restTimes = 2;
/** Without new reports only time-based work remains: run every third step while amounts wait for their other end, else every sixth. */
const waitingSteps = 3;
const idleSteps = 6;
/** An address without a name is requested again after this long; the resolver caches for longer. */
const retryMs = 30_000;
/** Least time to poll for a first DNS answer, independent of the interval. */
const minQuickMs = 5_000;
/** Addresses whose last request is remembered; the oldest are evicted. */
const maxRequested = 50_000;

export class DiscoveryLoop {
  readonly #options: DiscoveryLoopOptions;
  readonly #cycle: DiscoveryCycle;
  readonly #requestedMs = new Map<string, number>();
  #lastFailure = "";
  #woken = new AbortController();
  /** How long the last cycle took. */
  #stepMs = 0;
  /** Row count at the start of the last cycle, and steps skipped since. */
  #seenIngest = -1;
  #skipped = 0;
  /** Whether the last step requested names; the next steps store them. */
  #isNaming = false;

  constructor(options: DiscoveryLoopOptions) {
    this.#options = options;
    const { store, clock, config } = options;
    this.#cycle = new DiscoveryCycle({ store, clock, settings: config });
  }

  /** Incremented when names of services change. */
  get namesVersion(): number {
    return this.#cycle.namesVersion;
  }

  /** Resolves when aborted. A failed cycle is retried; repeated equal failures are logged once. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // A report during a step may have missed it.
      const woken = new AbortController();
      this.#woken = woken;
      if (this.#isIdle()) this.#skipped++;
      else await this.#step(signal);
      const { intervalMs } = this.#options.config();
      const restMs = Math.min(intervalMs, restTimes * this.#stepMs);
      // Aborted: the loop's condition ends it, or the next step runs early.
      await sleep(restMs, signal).catch(() => undefined);
      if (!signal.aborted) await sleep(intervalMs - restMs, AbortSignal.any([signal, woken.signal])).catch(() => undefined);
    }
  }

  /** Runs the next step soon, after processes of services were reported. */
  wake(): void {
    this.#skipped = idleSteps;
    this.#woken.abort();
  }

  /** For queries: runs a cycle when the loop is late. On failure logs, and the query uses stored data. */
  async catchUp(): Promise<void> {
    try {
      await this.#cycle.runIfOlder(this.#options.config().intervalMs + lateMs);
    } catch (error) {
      this.#report(error);
    }
  }

  #isIdle(): boolean {
    const steps = this.#cycle.isWaiting ? waitingSteps : idleSteps;
    return this.#reported() === this.#seenIngest && !this.#isNaming && this.#skipped < steps - 1;
  }

  #reported(): number {
    return this.#options.store.lastIngestOf(serviceInstance, connection);
  }

  async #step(signal: AbortSignal): Promise<void> {
    const { clock, log, metrics } = this.#options;
    const startedMs = clock.monotonicMs();
    const ingest = this.#reported();
    this.#skipped = 0;
    this.#seenIngest = -1;
    try {
      await this.#cycle.run();
      this.#stepMs = clock.monotonicMs() - startedMs;
      metrics.discoveryCycle.observe(this.#stepMs / 1_000);
      if (!signal.aborted) await this.#nameEndpoints();
      this.#seenIngest = ingest;
      if (this.#lastFailure !== "") log.info("Discovery works again");
      this.#lastFailure = "";
    } catch (error) {
      this.#report(error);
    }
  }

  /** Requests names without waiting; a later step stores the answers. */
  async #nameEndpoints(): Promise<void> {
    const { store, names, clock } = this.#options;
    const nowMs = clock.wallMs();
    const due = (await addressesWithoutName(store, nowMs)).filter(({ address }) => this.#isDue(address));
    this.#isNaming = due.length > 0;
    if (!this.#isNaming) return;
    const limited = new Map(due.flatMap(({ address, limits }): [string, NameLimits][] => (limits ? [[address, limits]] : [])));
    names.request(
      due.map(({ address }) => address),
      limited,
    );
    const found: ResolvedEndpoint[] = [];
    for (const { address } of due) {
      const known = names.nameOf(address);
      if (!known) continue;
      this.#requestedMs.delete(address);
      const { name, method, confidence, provider = null, product = null, region = null, expiresAtMs } = known;
      found.push({ address, name, method, confidence, provider, product, region, resolvedAtMs: nowMs, expiresAtMs });
    }
    await storeEndpointNames(store, found);
  }

  /** True in the first few steps, so that a quick answer is stored at once, then once per `retryMs`. */
  #isDue(address: string): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    const requestedMs = this.#requestedMs.get(address);
    const sinceMs = requestedMs === undefined ? 0 : nowMs - requestedMs;
    const quickMs = Math.max(3 * this.#options.config().intervalMs, minQuickMs);
    if (requestedMs !== undefined && sinceMs > quickMs && sinceMs < retryMs) return false;
    if (requestedMs !== undefined && sinceMs < retryMs) return true;
    this.#requestedMs.delete(address);
    this.#requestedMs.set(address, nowMs);
    for (const oldest of this.#requestedMs.keys()) {
      if (this.#requestedMs.size <= maxRequested) break;
      this.#requestedMs.delete(oldest);
    }
    return true;
  }

  #report(error: unknown): void {
    const problem = CoralError.from(error);
    this.#options.log[problem.message === this.#lastFailure ? "debug" : "error"](`Discovery failed: ${problem.message}`, {
      code: problem.code,
    });
    this.#lastFailure = problem.message;
  }
}
