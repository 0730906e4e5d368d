import type { Transaction } from "./database.ts";
import type { GapEntry } from "./pull-plan.ts";
import type { SqlParameter } from "./sql-values.ts";

/** In the transaction that moves the checkpoint past the missing rows. */
export async function insertGap(transaction: Transaction, gap: GapEntry, nowUs: number): Promise<void> {
  const values: SqlParameter[] = [nowUs, gap.agentId, gap.signal, gap.epoch, gap.reason, gap.rows, gap.firstSeq, gap.lastSeq];
  await transaction.run("INSERT INTO internal.gaps VALUES (make_timestamp(?), ?, ?, ?, ?, ?, ?, ?)", values);
}
