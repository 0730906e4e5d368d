/**
 * The process that parses users' SQL and runs statements that are not plain. It holds no state worth keeping: a statement that DuckDB
 * cannot interrupt ends with the process.
 */

import { CoralError } from "../../../base/errors.ts";
import { silentLogger } from "../../../base/log.ts";
import type { Connection } from "../../engine/connection.ts";
import { isUnexplained } from "../../engine/duckdb-errors.ts";
import { openEngine } from "../../engine/engine.ts";
import { endedError, explainFailure } from "../explain-failure.ts";
import { approveStatement } from "../guard/approve-statement.ts";
import { watchSql } from "../guard/watch-sql.ts";
import { streamRows } from "../stream-rows.ts";
import type { ApproveOrder, RunOrder, SqlAnswer, SqlOrder } from "./sql-orders.ts";

export interface SqlChannel {
  onOrder(listener: (order: SqlOrder) => void): void;
  answer(answer: SqlAnswer): void;
}

/** DuckDB checks for interrupts between chunks. A statement that still runs after this is stuck in one call. */
const stuckAfterMs = 400;

/** One order at a time: the next one is only sent after the response. */
export function runSqlProcess(channel: SqlChannel): void {
  let connection: Promise<Connection> | undefined;
  channel.onOrder((order) => {
    if (order.kind === "open") {
      connection = openEngine({ ...order.settings, log: silentLogger }).then((engine) => engine.connect());
      connection.then(
        () => channel.answer({ ok: true, result: null }),
        (error: unknown) => channel.answer(failed(error)),
      );
      return;
    }
    const opened = connection ?? Promise.reject(new CoralError({ code: "internal", message: "Cannot run SQL: the process is not open" }));
    void opened.then((open) => carryOut(open, order)).then((answer) => channel.answer(answer));
  });
}

async function carryOut(connection: Connection, order: ApproveOrder | RunOrder): Promise<SqlAnswer> {
  const watch = watchSql(connection, order);
  let timer: NodeJS.Timeout | undefined;
  const stuck = new Promise<SqlAnswer>((resolve) => {
    let endedAtMs: number | undefined;
    timer = setInterval(() => {
      if (watch.ended === undefined) return;
      endedAtMs ??= performance.now();
      if (performance.now() - endedAtMs >= stuckAfterMs) resolve(failed(endedError(watch.ended, order.timeoutMs), true));
    }, 50);
  });
  const done = (async (): Promise<SqlAnswer> => {
    try {
      return {
        ok: true,
        result: await (order.kind === "approve" ? approveStatement(connection, order.views, order.sql) : run(connection, order)),
      };
    } catch (error) {
      return {
        ...failed(explainFailure(error, watch.ended, order.timeoutMs)),
        isUnexplained: watch.ended === undefined && isUnexplained(error),
      };
    }
  })();
  try {
    return await Promise.race([done, stuck]);
  } finally {
    watch.stop();
    clearInterval(timer);
  }
}

async function run(connection: Connection, order: RunOrder): ReturnType<typeof streamRows> {
  try {
    for (const statement of order.before) await connection.run(statement);
    return await streamRows(connection, order);
  } finally {
    for (const statement of order.after) await connection.run(statement);
  }
}

function failed(error: unknown, isStuck = false): Extract<SqlAnswer, { ok: false }> {
  const { code, message, details } = CoralError.from(error);
  return { ok: false, error: { code, message, details }, isUnexplained: false, isStuck };
}
