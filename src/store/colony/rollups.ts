/** Rolls up the raw rows of all signals when they are due. */

import type { Clock } from "../../base/clock.ts";
import type { Database, Transaction } from "../engine/database.ts";
import type { Signal } from "../signals/define-signal.ts";
import { type Resolution, rollupName, rollupSql } from "../tables/rollup.ts";
import type { SignalTables } from "./colony-tables.ts";

export interface RollupResult {
  /** Rows written, by view name (`host_1m`). */
  partials: Record<string, number>;
}

export interface RollupHost {
  database: Database;
  tables: ReadonlyMap<string, SignalTables>;
  clock: Clock;
  /** Number of the last transaction that stored rows. */
  lastIngest: () => number;
  /** The same of rows of this signal. */
  lastIngestOf: (signal: Signal) => number;
}

/** Approximate rows per step; histograms of the rows are held in memory. */
const stepRows = { plain: 200_000, histograms: 20_000 };

/** Progress is the number of the transaction that stored the rows; clocks only trigger a run. One run at a time. */
export class Rollups {
  readonly #host: RollupHost;
  /** By name: the last transaction that was rolled up. */
  readonly #progress: Map<string, number>;
  readonly #rolledAtMs = new Map<string, number>();

  constructor(host: RollupHost, progress: Map<string, number>) {
    this.#host = host;
    this.#progress = progress;
  }

  /** `now`: also roll up what is not due yet. */
  async run(now: boolean): Promise<RollupResult> {
    const { tables, clock } = this.#host;
    const partials: Record<string, number> = {};
    for (const { signal, rollups } of tables.values()) {
      for (const { resolution } of rollups) {
        const name = rollupName(signal, resolution);
        const sinceMs = clock.monotonicMs() - (this.#rolledAtMs.get(name) ?? Number.NEGATIVE_INFINITY);
        if (!now && sinceMs < resolution.intervalMs) continue;
        partials[name] = await this.#runOne(signal, resolution);
        this.#rolledAtMs.set(name, clock.monotonicMs());
      }
    }
    return { partials };
  }

  async #runOne(signal: Signal, resolution: Resolution): Promise<number> {
    const { database, clock, lastIngest, lastIngestOf } = this.#host;
    const name = rollupName(signal, resolution);
    // A transaction for each roll-up without new rows would be most of an idle colony's work.
    if (lastIngestOf(signal) <= (this.#progress.get(name) ?? 0)) return 0;
    const sql = rollupSql(database.name, signal, resolution);
    let made = 0;
    for (;;) {
      const { rows, isDone } = await database.write(
        async (transaction) => {
          const after = this.#progress.get(name) ?? 0;
          const ingest = await this.#stepEnd(transaction, signal, after);
          if (ingest <= after) return { ingest: lastIngest(), rows: 0, isDone: true };
          const rows = await transaction.run(sql, { ingest, after, stored_at: Math.floor(clock.wallMs() * 1_000) });
          if (rows > 0) await transaction.run("UPDATE internal.rollup_progress SET ingest = ? WHERE name = ?", [ingest, name]);
          return { ingest, rows, isDone: ingest >= lastIngest() };
        },
        ({ ingest }) => this.#progress.set(name, ingest),
      );
      made += rows;
      if (isDone) return made;
    }
  }

  /**
   * The last transaction for one step, or `after` if there are no new rows: planning empty merges would be most of an idle colony's work.
   * Bounded, because rows that arrive after a long outage must not all be merged in memory at once. Rows are in transaction order.
   */
  async #stepEnd(transaction: Transaction, signal: Signal, after: number): Promise<number> {
    const atOnce = signal.rollup?.histograms || signal.isThinned ? stepRows.histograms : stepRows.plain;
    const table = `raw."${signal.name}"`;
    const [row] = await transaction.query(
      `SELECT (SELECT ingest FROM ${table} WHERE ingest > $after LIMIT 1) AS first, (SELECT ingest FROM ${table} WHERE ingest > $after LIMIT 1 OFFSET ${atOnce}) AS next`,
      { after },
    );
    if ((row?.["first"] ?? null) === null) return after;
    const next = row?.["next"] ?? null;
    return next === null ? this.#host.lastIngest() : Math.max(Number(next) - 1, after + 1);
  }
}
