import type { Clock } from "../../base/clock.ts";
import type { ColonyStore } from "../colony-store.ts";
import type { Transaction } from "../database.ts";
import { consumeConnections, endLostSides } from "./consume-connections.ts";
import { consumeInstances } from "./consume-instances.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";
import { flushSides } from "./flush-sides.ts";
import { ageServices, retainDiscovery } from "./maintain-discovery.ts";
import { pairSides } from "./pair-sides.ts";
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
const ageIntervalMs = 30_000;
const retainIntervalMs = 600_000;
const temporary = [
  ...[
    "fresh_instance",
    "scan_change",
    "instance_now",
    "changed_agent",
    "registry_now",
    "fresh_side",
    "side_change",
    "seen_address",
    "owned",
  ],
  ...[
    "unpaired",
    "pair",
    "due_side",
    "flushed",
    "flushed_class",
    "used",
    "used_endpoint",
    "service_endpoint_before",
    "gone_stale",
    "merged",
  ],
];

/**
 * Turns stored rows into services, connections and edges: the correlator. One call is one transaction with its progress, so a crash repeats at
 * most the cycle that was under way, from where it began; nothing is counted twice.
 */
export class DiscoveryCycle {
  readonly #options: DiscoveryCycleOptions;
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

  async #run(): Promise<DiscoveryCycleResult> {
    const { store, clock } = this.#options;
    const startedMs = clock.monotonicMs();
    const isAgeDue = startedMs - this.#agedAtMs >= ageIntervalMs;
    const isRetainDue = startedMs - this.#retainedAtMs >= retainIntervalMs;
    const result = await store.write((transaction) => this.#cycle(transaction, isAgeDue, isRetainDue));
    if (isAgeDue) this.#agedAtMs = startedMs;
    if (isRetainDue) this.#retainedAtMs = startedMs;
    this.#finishedAtMs = clock.monotonicMs();
    return result;
  }

  async #cycle(transaction: Transaction, isAgeDue: boolean, isRetainDue: boolean): Promise<DiscoveryCycleResult> {
    const { store, clock } = this.#options;
    const settings = this.#options.settings();
    const nowUs = Math.floor(clock.wallMs() * 1_000);
    const range = await readRange(transaction);
    const instances = range.upto > range.after ? await consumeInstances(transaction, range) : 0;
    if (instances > 0) await updateRegistry(transaction, nowUs);
    const connections = range.upto > range.after ? await consumeConnections(transaction, range) : 0;
    if (connections > 0) await pairSides(transaction, settings.correlationWindowMs);
    if (isAgeDue) await endLostSides(transaction, nowUs);
    const flushed = await flushSides(transaction, store.database.name, nowUs);
    if (isAgeDue) await ageServices(transaction, settings, nowUs);
    if (isRetainDue) await retainDiscovery(transaction, settings, nowUs);
    if (range.upto > range.after) await saveProgress(transaction, range.upto);
    await transaction.run(temporary.map((name) => `DROP TABLE IF EXISTS temp.${name}`).join("; "));
    return { instances, connections, flushed };
  }
}

/** One writer at a time: every number up to the highest that is there was committed. */
async function readRange(transaction: Transaction): Promise<{ after: number; upto: number }> {
  const [row] = await transaction.query(
    `SELECT coalesce((SELECT max(ingest) FROM internal.rollup_progress WHERE name = '${progressName}'), 0) AS after,
       greatest(coalesce((SELECT max(ingest) FROM raw.service_instance), 0), coalesce((SELECT max(ingest) FROM raw.connection), 0)) AS upto`,
  );
  return { after: Number(row?.["after"] ?? 0), upto: Number(row?.["upto"] ?? 0) };
}

/** Beside the roll-ups' progress, because numbers of pulls continue above the highest that is written there. */
async function saveProgress(transaction: Transaction, ingest: number): Promise<void> {
  const changed = await transaction.run(`UPDATE internal.rollup_progress SET ingest = ? WHERE name = '${progressName}'`, [ingest]);
  if (changed === 0) await transaction.run(`INSERT INTO internal.rollup_progress VALUES ('${progressName}', ?)`, [ingest]);
}
