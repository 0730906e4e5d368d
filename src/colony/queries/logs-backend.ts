/** The part of the colony's backend that is about log records. */

import type { Clock } from "../../base/clock.ts";
import { type LogsStore, queryLogPatterns, queryLogs } from "../../store/queries/index.ts";
import type { ColonyBackend } from "../../tools/index.ts";

export type LogsBackend = Pick<ColonyBackend, "logs" | "logPatterns">;

export function createLogsBackend({ store, clock }: { store: LogsStore; clock: Clock }): LogsBackend {
  return {
    logs: (request) => queryLogs(store, { ...request, nowMs: clock.wallMs() }),
    logPatterns: (request) => queryLogPatterns(store, { ...request, nowMs: clock.wallMs() }),
  };
}
