/** Appends pulled rows to the tables of their signals. */

import { setImmediate as nextTurn } from "node:timers/promises";
import { type ColumnSource, TableAppender } from "../columns/column-chunks.ts";
import type { Transaction } from "../engine/database.ts";
import type { PullPlan } from "../tables/pull-plan.ts";
import type { SignalTables } from "./colony-tables.ts";

/** Appending blocks the event loop; yields after this many rows. */
const rowsPerTurn = 8_192;

/** Runs in the transaction that moves the checkpoints of the plans' sources. */
export async function appendPulled(
  transaction: Transaction,
  tables: Iterable<SignalTables>,
  plans: readonly PullPlan[],
  { ingest, nowUs }: { ingest: number; nowUs: number },
): Promise<void> {
  for (const { signal, raw } of tables) {
    const appender = TableAppender.of(transaction.connection, raw);
    let rowsSinceTurn = 0;
    for (const { source, rows } of plans) {
      for (const added of rows) {
        if (added.signal !== signal.name) continue;
        const byName = new Map<string, ColumnSource>(added.batch.columns.map((column) => [column.name, column]));
        byName.set("source", { kind: "constant", value: BigInt(source.source), widthBytes: 4 });
        byName.set("ingest", { kind: "constant", value: BigInt(ingest), widthBytes: 8 });
        byName.set("stored_at", { kind: "constant", value: BigInt(nowUs), widthBytes: 8 });
        byName.set("seq", { kind: "sequence", first: added.firstSeq });
        appender.append(
          raw.columns.map(({ name }) => byName.get(name) ?? { kind: "null" }),
          added.batch.rows,
        );
        rowsSinceTurn += added.batch.rows;
        if (rowsSinceTurn > rowsPerTurn) {
          rowsSinceTurn = 0;
          await nextTurn();
        }
      }
    }
    appender.flush();
  }
}
