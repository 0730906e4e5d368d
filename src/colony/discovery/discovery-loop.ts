/** Turns what agents reported into services and edges, again and again, and asks for the names of what lies outside. */

import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { ColonyDiscoveryConfig } from "../../config/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { addressesWithoutName, DiscoveryCycle, type ResolvedEndpoint, storeEndpointNames } from "../../store/discovery/index.ts";
import type { ColonyMetrics } from "../core/colony-metrics.ts";
import type { EndpointNames, NameLimits } from "./endpoint-names/endpoint-names.ts";

export interface DiscoveryLoopOptions {
  store: ColonyStore;
  /** Read before each cycle, so that a reloaded config counts at once. */
  config: () => ColonyDiscoveryConfig;
  names: EndpointNames;
  clock: Clock;
  log: Logger;
  metrics: Pick<ColonyMetrics, "discoveryCycle">;
}

/** A query that comes later than this after the loop should have run does its work first. */
const lateMs = 1_000;
/** An address without a name is looked at again after this long; the lookup itself keeps what it knows for longer. */
const askAgainMs = 30_000;
/** A resolver may take this long, however short the interval is. */
const minQuickMs = 5_000;
/** Addresses whose last look is remembered; the oldest go. */
const askedMax = 50_000;

export class DiscoveryLoop {
  readonly #options: DiscoveryLoopOptions;
  readonly #cycle: DiscoveryCycle;
  readonly #askedMs = new Map<string, number>();
  #lastFailure = "";

  constructor(options: DiscoveryLoopOptions) {
    this.#options = options;
    const { store, clock, config } = options;
    this.#cycle = new DiscoveryCycle({ store, clock, settings: config });
  }

  /** Resolves when aborted; a failed cycle is logged once per kind in a row and repeated. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#step(signal);
      await sleep(this.#options.config().intervalMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
    }
  }

  /** For queries: runs a cycle when the loop is late. What it cannot do is logged, and the query answers from what there is. */
  async catchUp(): Promise<void> {
    try {
      await this.#cycle.runIfOlder(this.#options.config().intervalMs + lateMs);
    } catch (error) {
      this.#report(error);
    }
  }

  async #step(signal: AbortSignal): Promise<void> {
    const { clock, log, metrics } = this.#options;
    const startedMs = clock.monotonicMs();
    try {
      await this.#cycle.run();
      metrics.discoveryCycle.observe((clock.monotonicMs() - startedMs) / 1_000);
      if (!signal.aborted) await this.#nameEndpoints();
      if (this.#lastFailure !== "") log.info("Discovery works again");
      this.#lastFailure = "";
    } catch (error) {
      this.#report(error);
    }
  }

  /** Asking never waits, so an answer is taken up by a later step. */
  async #nameEndpoints(): Promise<void> {
    const { store, names, clock } = this.#options;
    const nowMs = clock.wallMs();
    const due = (await addressesWithoutName(store, nowMs)).filter(({ address }) => this.#isDue(address));
    if (due.length === 0) return;
    const limited = new Map(due.flatMap(({ address, limits }): [string, NameLimits][] => (limits ? [[address, limits]] : [])));
    names.request(
      due.map(({ address }) => address),
      limited,
    );
    const found: ResolvedEndpoint[] = [];
    for (const { address } of due) {
      const known = names.nameOf(address);
      if (!known) continue;
      this.#askedMs.delete(address);
      const { name, method, confidence, provider = null, product = null, region = null, expiresAtMs } = known;
      found.push({ address, name, method, confidence, provider, product, region, resolvedAtMs: nowMs, expiresAtMs });
    }
    await storeEndpointNames(store, found);
  }

  /** Looked at in a few steps in a row, so that a quick answer is taken at once, then only now and then. */
  #isDue(address: string): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    const askedMs = this.#askedMs.get(address);
    const sinceMs = askedMs === undefined ? 0 : nowMs - askedMs;
    const quickMs = Math.max(3 * this.#options.config().intervalMs, minQuickMs);
    if (askedMs !== undefined && sinceMs > quickMs && sinceMs < askAgainMs) return false;
    if (askedMs !== undefined && sinceMs < askAgainMs) return true;
    this.#askedMs.delete(address);
    this.#askedMs.set(address, nowMs);
    for (const oldest of this.#askedMs.keys()) {
      if (this.#askedMs.size <= askedMax) break;
      this.#askedMs.delete(oldest);
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
