import type { Connection } from "../../engine/connection.ts";

/** Why a running statement was interrupted. */
export type SqlEnd = "timeout" | "memory" | "cancelled";

export interface SqlWatch {
  readonly ended: SqlEnd | undefined;
  stop(): void;
}

const tickMs = 20;
/**
 * Limit on how much a statement may grow this process beyond DuckDB's own limit. StatementGrowth explains why DuckDB does not count
 * everything.
 */
const memoryGrowthMaxBytes = 512 * 1024 ** 2;

/** Interrupts the connection's statement at its time limit, when the process grows too much, or when `signal` aborts. */
export function watchSql(connection: Connection, { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal }): SqlWatch {
  const deadlineMs = performance.now() + timeoutMs;
  const maxRssBytes = process.memoryUsage.rss() + memoryGrowthMaxBytes;
  let ended: SqlEnd | undefined;
  // Repeats: an interrupt between two steps of a statement has no effect on the next step.
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
