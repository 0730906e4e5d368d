/** Series and totals of the host signals in time buckets, from raw samples or, for long windows, from roll-ups. */

import {
  type HostMetric,
  type HostMetricName,
  type HostSeries,
  type HostTotals,
  hostMetricNames,
  type SeriesResolution,
} from "../../../model/host.ts";
import { groupByAgent, numberIn, numberOrNullIn, placeholders, type Queryable, type QueryRow } from "../../tables/queryable.ts";

export interface SeriesRange {
  /** Inclusive, milliseconds since 1970. */
  startMs: number;
  bucketMs: number;
  points: number;
  resolution: SeriesResolution;
}

const sampleMs = 15_000;
/** Up to this window length, raw samples are few enough to read. */
const rawMaxMs = 6 * 3_600_000;
const minuteMaxMs = 48 * 3_600_000;
const resolutionMs: Record<SeriesResolution, number> = { raw: sampleMs, "1m": 60_000, "10m": 600_000 };

/** The buckets for the last `sinceMs`: at most `maxPoints`, never finer than the data. 0 points gives one bucket, for the summary. */
export function seriesRange(nowMs: number, sinceMs: number, maxPoints: number): SeriesRange {
  const resolution: SeriesResolution = sinceMs <= rawMaxMs ? "raw" : sinceMs <= minuteMaxMs ? "1m" : "10m";
  const stepMs = resolutionMs[resolution];
  const wanted = Math.max(1, maxPoints);
  const bucketMs = Math.max(stepMs, Math.ceil(sinceMs / wanted / stepMs) * stepMs);
  const points = Math.max(1, Math.ceil(sinceMs / bucketMs));
  // The time of a roll-up row is the start of its bucket: align the range, or it would miss the first row.
  const startMs = resolution === "raw" ? nowMs - sinceMs : Math.floor((nowMs - sinceMs) / stepMs) * stepMs;
  return { startMs, bucketMs, points, resolution };
}

interface MetricSql {
  avg: string;
  min: string;
  max: string;
}

const plain = (column: string): MetricSql => ({ avg: `avg(${column})`, min: `min(${column})`, max: `max(${column})` });
/** Averages are weighted by sample count. Roll-ups keep averages and maxima; the smallest average serves as the minimum. */
const weighed = (average: string): string =>
  `sum(${average} * sample_count) / nullif(sum(sample_count) FILTER (${average} IS NOT NULL), 0)`;
const rolledUp = (column: string): MetricSql => ({ avg: weighed(`${column}_avg`), min: `min(${column}_avg)`, max: `max(${column}_max)` });

type HostColumnMetric = Exclude<HostMetricName, "diskBusyRatio">;

const columns: Record<Exclude<HostColumnMetric, "memUsedRatio">, string> = {
  cpuBusyRatio: "cpu_busy_ratio",
  cpuIowaitRatio: "cpu_iowait_ratio",
  cpuStealRatio: "cpu_steal_ratio",
  load1m: "load_1m",
  psiCpuSomeRatio: "psi_cpu_some_ratio",
  psiMemorySomeRatio: "psi_memory_some_ratio",
  psiIoSomeRatio: "psi_io_some_ratio",
};

function metricsSql(resolution: SeriesResolution): string {
  const parts: string[] = [];
  const add = (name: string, sql: MetricSql): void => {
    for (const part of ["avg", "min", "max"] as const) parts.push(`${sql[part]} AS "${name}.${part}"`);
  };
  for (const [name, column] of Object.entries(columns)) add(name, resolution === "raw" ? plain(column) : rolledUp(column));
  if (resolution === "raw") {
    add("memUsedRatio", plain("1 - mem_available_bytes / nullif(mem_total_bytes, 0)"));
  } else {
    const total = "nullif(mem_total_bytes_max, 0)";
    const average = `1 - mem_available_bytes_avg / ${total}`;
    add("memUsedRatio", { avg: weighed(`(${average})`), min: `min(${average})`, max: `max(1 - mem_available_bytes_min / ${total})` });
  }
  return parts.join(", ");
}

function totalsSql(resolution: SeriesResolution): string {
  if (resolution !== "raw") {
    return `sum(sample_count) AS samples, sum(oom_kills_sum) AS oom_kills, sum(tcp_listen_overflows_sum) AS overflows, sum(tcp_listen_drops_sum) AS drops,
      sum(tcp_retransmits_per_s_avg) * ${resolutionMs[resolution] / 1_000} AS retransmits, NULL AS segments`;
  }
  return `count(*) AS samples, sum(oom_kills) AS oom_kills, sum(tcp_listen_overflows) AS overflows, sum(tcp_listen_drops) AS drops,
    sum(tcp_retransmits_per_s * interval_ms) / 1000 AS retransmits, sum(tcp_out_segments_per_s * interval_ms) / 1000 AS segments`;
}

export interface HostHistory {
  series: HostSeries;
  totals: HostTotals;
}

/** The history of every requested agent, including those without rows. */
export async function queryHostHistory(
  store: Queryable,
  agentIds: readonly string[],
  range: SeriesRange,
  wantPoints: boolean,
): Promise<Map<string, HostHistory>> {
  const suffix = range.resolution === "raw" ? "" : `_${range.resolution}`;
  const startUs = range.startMs * 1_000;
  const bucket = "(epoch_us(time) - ?::BIGINT) // ?::BIGINT";
  const inRange = `agent_id IN (${placeholders(agentIds)}) AND time >= make_timestamp(?)`;
  const parameters = [startUs, range.bucketMs * 1_000, ...agentIds, startUs];
  const busy =
    suffix === "" ? { avg: "avg(busy_ratio)", max: "max(busy_ratio)" } : { avg: "avg(busy_ratio_avg)", max: "max(busy_ratio_max)" };
  const [hostRows, diskRows] = await Promise.all([
    store.query(
      `SELECT agent_id, ${bucket} AS bucket, ${metricsSql(range.resolution)}, ${totalsSql(range.resolution)}
       FROM host${suffix} WHERE ${inRange} GROUP BY ALL ORDER BY agent_id, bucket`,
      parameters,
    ),
    store.query(
      `SELECT agent_id, bucket, max(busy) AS "diskBusyRatio.avg", max(busy) AS "diskBusyRatio.min", max(peak) AS "diskBusyRatio.max", 1 AS samples FROM (
         SELECT agent_id, device, ${bucket} AS bucket, ${busy.avg} AS busy, ${busy.max} AS peak
         FROM host_disk${suffix} WHERE ${inRange} GROUP BY ALL
       ) GROUP BY ALL ORDER BY agent_id, bucket`,
      parameters,
    ),
  ]);
  const hostByAgent = groupByAgent(hostRows);
  const diskByAgent = groupByAgent(diskRows);
  return new Map(
    agentIds.map((agentId) => {
      const rows = hostByAgent.get(agentId) ?? [];
      return [agentId, { series: seriesOf(range, rows, diskByAgent.get(agentId) ?? [], wantPoints), totals: totalsOf(rows) }];
    }),
  );
}

function seriesOf(range: SeriesRange, hostRows: QueryRow[], diskRows: QueryRow[], wantPoints: boolean): HostSeries {
  const points = wantPoints ? range.points : 0;
  const metrics = hostMetricNames.map((name) => [name, metricOf(name, name === "diskBusyRatio" ? diskRows : hostRows, points)]);
  return {
    startAt: new Date(range.startMs).toISOString(),
    bucketMs: range.bucketMs,
    resolution: range.resolution,
    ...(Object.fromEntries(metrics) as Record<HostMetricName, HostMetric>),
  };
}

function metricOf(name: HostMetricName, rows: QueryRow[], pointCount: number): HostMetric {
  const metric: HostMetric = { min: null, avg: null, max: null, points: Array.from({ length: pointCount }, () => null) };
  let weight = 0;
  let sum = 0;
  for (const row of rows) {
    const average = numberOrNullIn(row, `${name}.avg`);
    if (average === null) continue;
    const samples = numberIn(row, "samples");
    sum += average * samples;
    weight += samples;
    const min = numberOrNullIn(row, `${name}.min`) ?? average;
    const max = numberOrNullIn(row, `${name}.max`) ?? average;
    metric.min = metric.min === null ? rounded(min) : Math.min(metric.min, rounded(min));
    metric.max = metric.max === null ? rounded(max) : Math.max(metric.max, rounded(max));
    // Rows past the last bucket come from an agent whose clock is ahead. They count in the summary.
    const bucket = numberIn(row, "bucket");
    if (bucket >= 0 && bucket < pointCount) metric.points[bucket] = rounded(average);
  }
  metric.avg = weight > 0 ? rounded(sum / weight) : null;
  return metric;
}

function totalsOf(rows: QueryRow[]): HostTotals {
  const sum = (name: string): number => rows.reduce((total, row) => total + numberIn(row, name), 0);
  const segments = sum("segments");
  const retransmits = sum("retransmits");
  return {
    samples: sum("samples"),
    oomKills: sum("oom_kills"),
    tcpListenOverflows: sum("overflows"),
    tcpListenDrops: sum("drops"),
    tcpRetransmits: Math.round(retransmits),
    tcpRetransmitRatio: segments > 0 ? rounded(retransmits / segments) : null,
  };
}

/** Four digits: the rest is sampling noise, and answers stay short. */
function rounded(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}
