/** Progress of derivations: the last segment number per epoch and derived table. Stored in the same file as the derived rows. */

import type { Database, Transaction } from "../../engine/database.ts";
import type { SegmentEntry } from "../segment-manifest.ts";

const tables = `
  CREATE SCHEMA IF NOT EXISTS segment;
  CREATE TABLE IF NOT EXISTS segment.derived (product VARCHAR NOT NULL, epoch VARCHAR NOT NULL, number UBIGINT NOT NULL, PRIMARY KEY (product, epoch));
  -- Calls whose parents have not arrived yet.
  CREATE TABLE IF NOT EXISTS segment.waiting_calls (source UINTEGER, trace_id UUID, span_id UBIGINT, parent_span_id UBIGINT, service VARCHAR,
    protocol VARCHAR, kind VARCHAR, "time" TIMESTAMP, duration_ns BIGINT, is_error BOOLEAN, weight DOUBLE, since TIMESTAMP);
  -- Last resource attributes of one process of each service at each agent.
  CREATE TABLE IF NOT EXISTS segment.span_processes (source UINTEGER, service VARCHAR, resource VARCHAR, seen TIMESTAMP, PRIMARY KEY (source, service))`;

const keyOf = (product: string, epoch: string): string => `${product} ${epoch}`;

export class DerivedProgress {
  readonly #numbers = new Map<string, number>();

  static async open(database: Database): Promise<DerivedProgress> {
    await database.write((transaction) => transaction.run(tables));
    const progress = new DerivedProgress();
    const rows = await database.query(`SELECT product, epoch, number FROM "${database.name}".segment.derived`);
    for (const row of rows) progress.#numbers.set(keyOf(String(row["product"]), String(row["epoch"])), Number(row["number"]));
    return progress;
  }

  isDone(product: string, { epoch, number }: Pick<SegmentEntry, "epoch" | "number">): boolean {
    return number <= (this.#numbers.get(keyOf(product, epoch)) ?? 0);
  }

  /** True if some parts of a merged segment were derived. Agents never merge such parts; it only happens at a colony that lost commits. */
  isPartlyDone(product: string, { epoch, firstNumber, number }: SegmentEntry): boolean {
    const done = this.#numbers.get(keyOf(product, epoch)) ?? 0;
    return firstNumber <= done && done < number;
  }

  /** Saves progress in the transaction that stores the rows derived from `entries`. Call `apply` after its commit. */
  async save(transaction: Transaction, product: string, entries: readonly SegmentEntry[]): Promise<void> {
    for (const [epoch, number] of lastNumbers(entries)) {
      await transaction.run(
        "INSERT INTO segment.derived VALUES (?, ?, ?) ON CONFLICT (product, epoch) DO UPDATE SET number = excluded.number",
        [product, epoch, number],
      );
    }
  }

  apply(product: string, entries: readonly SegmentEntry[]): void {
    for (const [epoch, number] of lastNumbers(entries)) this.#numbers.set(keyOf(product, epoch), number);
  }
}

function lastNumbers(entries: readonly SegmentEntry[]): Map<string, number> {
  const last = new Map<string, number>();
  for (const { epoch, number } of entries) last.set(epoch, Math.max(last.get(epoch) ?? 0, number));
  return last;
}
