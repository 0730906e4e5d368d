import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Transaction } from "../engine/database.ts";
import type { WritableStore } from "../tables/queryable.ts";
import { backfillBuilds } from "./backfill-builds.ts";
import { keepViews } from "./classify-edges.ts";
import { consumeConnections, endLostSides } from "./consume-connections.ts";
import { consumeInstances } from "./consume-instances.ts";
import { type DiscoverySettings, rowsPerTransaction } from "./discovery-settings.ts";
import { flushSides } from "./flush-sides.ts";
import { ageServices, retainDiscovery } from "./maintain-discovery.ts";
import { labelAll, nameServices } from "./name-services.ts";
import { pairSides } from "./pair-sides.ts";
import { readPullRange } from "./pull-range.ts";
import { dropTables } from "./sql-parts.ts";
import { updateRegistry } from "./update-registry.ts";

export interface DiscoveryCycleResult {
  /** Rows consumed. */
  instances: number;
  connections: number;
  /** Ends whose amounts were added to the totals. */
  flushed: number;
}

export interface DiscoveryCycleOptions {
  store: WritableStore;
  settings: () => DiscoverySettings;
  clock: Clock;
  /** Limit on rows and ends per transaction. Default 20,000. */
  rowsPerTransaction?: number;
}

interface StepOutcome {
  result: DiscoveryCycleResult;
  isLast: boolean;
  /** Service names have changed. */
  isRelabelled: boolean;
  /** Amounts that were not flushed. */
  isWaiting: boolean;
}

const minBatchRows = 500;
const rowsPerCheckpoint = 100_000;
const ageIntervalMs = 30_000;
const retainIntervalMs = 600_000;

/**
 * The correlator: turns stored rows into services, connections and edges. Each step is one transaction that includes its progress. A crash
 * repeats at most the interrupted step, and nothing is counted twice.
 */
export class DiscoveryCycle {
  readonly #options: DiscoveryCycleOptions;
  readonly #maxRows: number;
  #batchRows: number;
  #rowsInMemory = 0;
  #running: Promise<DiscoveryCycleResult> | undefined;
  #agedAtMs = Number.NEGATIVE_INFINITY;
  #retainedAtMs = Number.NEGATIVE_INFINITY;
  #finishedAtMs = Number.NEGATIVE_INFINITY;
  #namesVersion = 0;
  #isWaiting = true;

  constructor(options: DiscoveryCycleOptions) {
    this.#options = options;
    this.#maxRows = options.rowsPerTransaction ?? rowsPerTransaction;
    this.#batchRows = this.#maxRows;
  }

  /** Increases when service names change. */
  get namesVersion(): number {
    return this.#namesVersion;
  }

  /** Whether amounts wait for their other end, or for the time after which none is expected. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Joins a running cycle. */
  run(): Promise<DiscoveryCycleResult> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Runs a cycle unless one ended within `maxAgeMs`, for queries that need the rows of the last pull. */
  async runIfOlder(maxAgeMs: number): Promise<void> {
    if (this.#options.clock.monotonicMs() - this.#finishedAtMs > maxAgeMs) await this.run();
  }

  /**
   * Runs bounded transactions until no rows are left. New rows stay uncompressed in memory until a checkpoint, so a large backlog triggers
   * checkpoints.
   */
  async #run(): Promise<DiscoveryCycleResult> {
    const { store, clock } = this.#options;
    const total: DiscoveryCycleResult = { instances: 0, connections: 0, flushed: 0 };
    for (;;) {
      const { result, isLast } = await this.#transact();
      total.instances += result.instances;
      total.connections += result.connections;
      total.flushed += result.flushed;
      this.#rowsInMemory += result.connections + result.flushed;
      if (this.#rowsInMemory > rowsPerCheckpoint) {
        this.#rowsInMemory = 0;
        await store.database.checkpoint();
      }
      if (isLast) break;
    }
    this.#finishedAtMs = clock.monotonicMs();
    return total;
  }

  async #transact(): Promise<StepOutcome> {
    const { store, clock } = this.#options;
    const startedMs = clock.monotonicMs();
    const due = { age: startedMs - this.#agedAtMs >= ageIntervalMs, retain: startedMs - this.#retainedAtMs >= retainIntervalMs };
    for (;;) {
      try {
        const outcome = await store.write((transaction) => this.#step(transaction, due));
        if (outcome.isLast && due.age) this.#agedAtMs = startedMs;
        if (outcome.isLast && due.retain) this.#retainedAtMs = startedMs;
        if (outcome.isRelabelled) this.#namesVersion++;
        this.#isWaiting = outcome.isWaiting;
        this.#batchRows = Math.min(this.#maxRows, this.#batchRows * 2);
        return outcome;
      } catch (error) {
        if (CoralError.from(error).code !== "exhausted" || this.#batchRows <= minBatchRows) throw error;
        // Out of memory: a checkpoint frees some, and the next attempt takes fewer rows per step.
        this.#batchRows = Math.max(minBatchRows, Math.floor(this.#batchRows / 4));
        await store.database.checkpoint();
      }
    }
  }

  async #step(transaction: Transaction, due: { age: boolean; retain: boolean }): Promise<StepOutcome> {
    const { store, clock } = this.#options;
    const settings = this.#options.settings();
    const nowUs = Math.floor(clock.wallMs() * 1_000);
    const range = await readPullRange(transaction, this.#batchRows);
    const instances = range.isEmpty ? 0 : await consumeInstances(transaction, range);
    let isRelabelled = instances > 0 && (await nameServices(transaction)) > 0 && (await labelAll(transaction, nowUs));
    if (instances > 0) await updateRegistry(transaction, nowUs);
    if (instances > 0) await backfillBuilds(transaction, nowUs);
    const connections = range.isEmpty ? 0 : await consumeConnections(transaction, range);
    if (connections > 0) await pairSides(transaction, settings.correlationWindowMs);
    await transaction.run(dropTables("fresh_side", "side_change", "unpaired", "owned", "pair"));
    if (connections > 0) await keepViews(transaction);
    const isConsumed = !range.hasMore;
    if (isConsumed && due.age) await endLostSides(transaction, nowUs);
    const { flushed, waiting } = await flushSides(transaction, store.database.name, nowUs, this.#batchRows);
    if (isConsumed && due.age) await ageServices(transaction, settings, nowUs);
    // Services with the same name come and go, which changes the labels of the others.
    if (isConsumed && due.age) isRelabelled = (await labelAll(transaction, nowUs)) || isRelabelled;
    if (isConsumed && due.retain) await retainDiscovery(transaction, settings, nowUs);
    if (!range.isEmpty) await range.save(transaction);
    await transaction.run(dropTables("new_view", "due_side", "gone_stale", "merged", "named_now"));
    return {
      result: { instances, connections, flushed },
      isLast: isConsumed && flushed < this.#batchRows,
      isRelabelled,
      isWaiting: waiting > 0,
    };
  }
}
