/** Runs the colony's queries on this agent's store, one at a time. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { Semaphore } from "../../base/semaphore.ts";
import type { TraceRequest } from "../../model/traces.ts";
import type { QueryRequest, QueryResponseSchema } from "../../proto/coral/agent/v1/agent_pb.ts";
import { type AgentStore } from "../../store/agent/index.ts";
import {
  type LogsQuery,
  type LogsStore,
  type MetricNamesQuery,
  type MetricQuery,
  queryLogPatterns,
  queryLogs,
  queryMetric,
  queryMetricNames,
  queryTrace,
  queryTraces,
  type TraceStore,
  type TracesQuery,
} from "../../store/queries/index.ts";
import { toConnectError } from "../../transport/index.ts";

type QueriedStore = Pick<AgentStore, "query"> & Partial<Pick<AgentStore, "segments">>;
type QueryHandler = (store: TraceStore & LogsStore, query: Record<string, unknown>) => Promise<unknown>;

/** Characters of one result, before the response is encoded. */
const maxResultLength = 8 * 1024 * 1024;
/** Queued queries; a colony sends few. */
const maxWaiting = 16;

const kinds: Readonly<Record<string, { signal: string; run: QueryHandler }>> = {
  traces: { signal: "span", run: (store, query) => queryTraces(store, query as unknown as TracesQuery) },
  trace: { signal: "span", run: (store, query) => queryTrace(store, query as unknown as TraceRequest) },
  logs: { signal: "log", run: (store, query) => queryLogs(store, query as unknown as LogsQuery) },
  log_patterns: { signal: "log", run: (store, query) => queryLogPatterns(store, query as unknown as LogsQuery) },
  metric: { signal: "metric_point", run: (store, query) => queryMetric(store, query as unknown as MetricQuery) },
  metric_names: { signal: "metric_point", run: (store, query) => queryMetricNames(store, query as unknown as MetricNamesQuery) },
};

/** One query at a time: the agent's store is small, and so is its memory budget for queries. */
export class QueryService {
  readonly #store: QueriedStore;
  readonly #clock: Clock;
  readonly #slot = new Semaphore(1);

  constructor(store: QueriedStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** `exhausted` when the queue is full, `unsupported` for a kind of a newer colony. */
  async run({ kind, request }: QueryRequest, signal: AbortSignal): Promise<MessageInitShape<typeof QueryResponseSchema>> {
    try {
      if (this.#slot.waiting >= maxWaiting) {
        throw new CoralError({ code: "exhausted", message: "Cannot run the query: too many queries are waiting; try again later" });
      }
      return await this.#slot.run(() => this.#runKind(kind, request, signal));
    } catch (error) {
      throw toConnectError(error);
    }
  }

  async #runKind(kind: string, request: string, signal: AbortSignal): Promise<MessageInitShape<typeof QueryResponseSchema>> {
    const handler = kinds[kind];
    if (handler === undefined)
      throw new CoralError({
        code: "unsupported",
        message: `Cannot run query "${kind}": this agent does not support it; update the agent`,
      });
    const store = this.#view(signal);
    const result = JSON.stringify(await handler.run(store, { ...objectIn(request), nowMs: this.#clock.wallMs() }));
    if (result.length > maxResultLength) {
      throw new CoralError({
        code: "exhausted",
        message: "Cannot return the result: it exceeds 8 MiB; use a shorter time range or a lower limit",
      });
    }
    const oldestUs = await this.#oldestUs(handler.signal);
    return { answer: result, ...(oldestUs === undefined ? {} : { oldestUs: BigInt(oldestUs) }) };
  }

  /** Presents the tables as in a colony, with the column `agent_id`. */
  #view(signal: AbortSignal): TraceStore & LogsStore {
    const store = this.#store;
    const points = `WITH metric_point AS (SELECT '' AS agent_id, * FROM main.metric_point)`;
    return {
      query: (sql, parameters) => {
        const own = sql.includes("metric_point") ? sql.replace(/^\s*(WITH\s)?/i, (_, word) => (word ? `${points}, ` : `${points} `)) : sql;
        return store.query(own, parameters, signal);
      },
      segments: store.segments,
    };
  }

  async #oldestUs(signal: string): Promise<number | undefined> {
    const sql =
      signal === "metric_point"
        ? `SELECT epoch_us(min("time")) AS oldest FROM main.metric_point`
        : `SELECT min(min_time) AS oldest FROM segment.manifest WHERE state = 'stored' AND signal = '${signal}'`;
    if (signal !== "metric_point" && this.#store.segments === undefined) return undefined;
    const [row] = await this.#store.query(sql);
    const oldest = row?.["oldest"];
    return oldest === null || oldest === undefined ? undefined : Number(oldest);
  }
}

function objectIn(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Reported below, like every value that is not an object.
  }
  throw new CoralError({ code: "invalid", message: "Cannot run the query: the request is not a JSON object" });
}
