import type { Connection } from "../../engine/connection.ts";

/** Why a running statement was interrupted. */
export type SqlEnd = "timeout" | "memory" | "cancelled";

export interface SqlWatch {
  readonly ended: SqlEnd | undefined;
  stop(): void;
}

const tickMs = 20;
/** What a statement may add to this process's memory on top of DuckDB's own limit; see StatementGrowth for why that does not count all. */
const memoryGrowthMaxBytes = 512 * 1024 ** 2;

/** Interrupts the connection's statement at its time limit, when the process grows too much, or when `signal` aborts. */
export function watchSql(connection: Connection, { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal }): SqlWatch {
  const deadlineMs = performance.now() + timeoutMs;
  const maxRssBytes = process.memoryUsage.rss() + memoryGrowthMaxBytes;
  let ended: SqlEnd | undefined;
  // Again and again: an interrupt between two steps of a statement is forgotten by the next step.
  const timer = setInterval(() => {
    if (signal?.aborted) ended ??= "cancelled";
    else if (performance.now() > deadlineMs) ended ??= "timeout";
    else if (process.memoryUsage.rss() > maxRssBytes) ended ??= "memory";
    if (ended !== undefined) connection.interrupt();
  }, tickMs);
  return {
    get ended() {
      return ended;
    },
    stop: () => clearInterval(timer),
  };
}
