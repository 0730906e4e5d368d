import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { ColonyStore } from "../colony-store.ts";
import type { Transaction } from "../database.ts";
import { keepViews } from "./classify-edges.ts";
import { consumeConnections, endLostSides } from "./consume-connections.ts";
import { consumeInstances } from "./consume-instances.ts";
import { type DiscoverySettings, rowsPerTransaction } from "./discovery-settings.ts";
import { flushSides } from "./flush-sides.ts";
import { ageServices, retainDiscovery } from "./maintain-discovery.ts";
import { pairSides } from "./pair-sides.ts";
import { dropTables } from "./sql-parts.ts";
import { updateRegistry } from "./update-registry.ts";

export interface DiscoveryCycleResult {
  /** Rows consumed. */
  instances: number;
  connections: number;
  /** Ends whose amounts went into the totals. */
  flushed: number;
}

export interface DiscoveryCycleOptions {
  store: ColonyStore;
  settings: () => DiscoverySettings;
  clock: Clock;
}

const progressName = "discovery";
const pullsPerTransaction = 1_000;
const minBatchRows = 500;
const rowsPerCheckpoint = 100_000;
const ageIntervalMs = 30_000;
const retainIntervalMs = 600_000;

/**
 * Turns stored rows into services, connections and edges: the correlator. Each step is one transaction with its progress, so a crash repeats at
 * most the step that was under way, from where it began; nothing is counted twice.
 */
export class DiscoveryCycle {
  readonly #options: DiscoveryCycleOptions;
  #batchRows = rowsPerTransaction;
  #rowsInMemory = 0;
  #running: Promise<DiscoveryCycleResult> | undefined;
  #agedAtMs = Number.NEGATIVE_INFINITY;
  #retainedAtMs = Number.NEGATIVE_INFINITY;
  #finishedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: DiscoveryCycleOptions) {
    this.#options = options;
  }

  /** Joins a cycle that is under way. */
  run(): Promise<DiscoveryCycleResult> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Runs a cycle unless one ended within `maxAgeMs`. For queries that want what has just been pulled. */
  async runIfOlder(maxAgeMs: number): Promise<void> {
    if (this.#options.clock.monotonicMs() - this.#finishedAtMs > maxAgeMs) await this.run();
  }

  /** Transactions of a bounded size, until nothing is left. New rows lie in memory uncompressed until a checkpoint, so many of them ask for one. */
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

  async #transact(): Promise<{ result: DiscoveryCycleResult; isLast: boolean }> {
    const { store, clock } = this.#options;
    const startedMs = clock.monotonicMs();
    const due = { age: startedMs - this.#agedAtMs >= ageIntervalMs, retain: startedMs - this.#retainedAtMs >= retainIntervalMs };
    try {
      const outcome = await store.write((transaction) => this.#step(transaction, due));
      if (outcome.isLast && due.age) this.#agedAtMs = startedMs;
      if (outcome.isLast && due.retain) this.#retainedAtMs = startedMs;
      this.#batchRows = Math.min(rowsPerTransaction, this.#batchRows * 2);
      return outcome;
    } catch (error) {
      // Too much for the memory there is: the next attempt takes less at a time.
      if (CoralError.from(error).code === "exhausted") this.#batchRows = Math.max(minBatchRows, Math.floor(this.#batchRows / 4));
      throw error;
    }
  }

  async #step(
    transaction: Transaction,
    due: { age: boolean; retain: boolean },
  ): Promise<{ result: DiscoveryCycleResult; isLast: boolean }> {
    const { store, clock } = this.#options;
    const settings = this.#options.settings();
    const nowUs = Math.floor(clock.wallMs() * 1_000);
    const range = await readRange(transaction, this.#batchRows);
    const instances = range.upto > range.after ? await consumeInstances(transaction, range) : 0;
    if (instances > 0) await updateRegistry(transaction, nowUs);
    const connections = range.upto > range.after ? await consumeConnections(transaction, range) : 0;
    if (connections > 0) await pairSides(transaction, settings.correlationWindowMs);
    await transaction.run(dropTables("side_chain", "side_change", "seen_address", "unpaired", "owned", "pair"));
    if (connections > 0) await keepViews(transaction);
    const isConsumed = !range.hasMore;
    if (isConsumed && due.age) await endLostSides(transaction, nowUs);
    const flushed = await flushSides(transaction, store.database.name, nowUs, this.#batchRows);
    if (isConsumed && due.age) await ageServices(transaction, settings, nowUs);
    if (isConsumed && due.retain) await retainDiscovery(transaction, settings, nowUs);
    if (range.upto > range.after) await saveProgress(transaction, range.upto);
    await transaction.run(dropTables("new_view", "due_side", "gone_stale", "merged"));
    return { result: { instances, connections, flushed }, isLast: isConsumed && flushed < this.#batchRows };
  }
}

interface IngestRange {
  after: number;
  upto: number;
  hasMore: boolean;
}

/** One writer at a time: every number up to the highest that is there was committed. A pull is taken whole, however large it is. */
async function readRange(transaction: Transaction, maxRows: number): Promise<IngestRange> {
  const [progress] = await transaction.query(`SELECT max(ingest) AS ingest FROM internal.rollup_progress WHERE name = '${progressName}'`);
  const after = Number(progress?.["ingest"] ?? 0);
  const pulls = await transaction.query(
    `SELECT ingest, count(*) AS rows FROM (
       SELECT ingest FROM raw.service_instance WHERE ingest > ${after} UNION ALL SELECT ingest FROM raw.connection WHERE ingest > ${after}
     ) GROUP BY ingest ORDER BY ingest LIMIT ${pullsPerTransaction + 1}`,
  );
  let upto = after;
  let rows = 0;
  for (const [index, pull] of pulls.entries()) {
    rows += Number(pull["rows"]);
    if (index > 0 && (rows > maxRows || index === pullsPerTransaction)) return { after, upto, hasMore: true };
    upto = Number(pull["ingest"]);
  }
  return { after, upto, hasMore: false };
}

/** Beside the roll-ups' progress, because numbers of pulls continue above the highest that is written there. */
async function saveProgress(transaction: Transaction, ingest: number): Promise<void> {
  const changed = await transaction.run(`UPDATE internal.rollup_progress SET ingest = ? WHERE name = '${progressName}'`, [ingest]);
  if (changed === 0) await transaction.run(`INSERT INTO internal.rollup_progress VALUES ('${progressName}', ?)`, [ingest]);
}
