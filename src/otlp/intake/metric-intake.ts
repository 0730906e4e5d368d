/** Turns data points into stored rows, and bounds the series of each service. */

import type { Clock } from "../../base/clock.ts";
import { type AgentStore } from "../../store/agent/index.ts";
import { metricLoss, metricPoint, metricSeries } from "../../store/signals/index.ts";
import type { MetricPoint } from "../decode/metric-point.ts";
import { type MetricPointRow, type MetricSeriesRow, metricRowOf, metricSeriesRowOf, seriesOf } from "../decode/metric-rows.ts";

export interface MetricIntakeOptions {
  store: Pick<AgentStore, "append">;
  clock: Clock;
  /** Default 5,000. */
  maxSeriesPerService?: number;
  /** Default 50,000. */
  maxSeries?: number;
}

/** Since the start, except `series`: series known now. */
export interface MetricIntakeCounts {
  points: number;
  series: number;
  /** Points of series beyond a bound. */
  overSeries: number;
  /** Points from the future, or with numbers that cannot be stored. */
  unusable: number;
}

/** Points of a request that were rejected, for the reply to its sender. */
export interface RejectedPoints {
  rejected: number;
  message: string;
}

const hourMs = 3_600_000;
/** A series without points for this long may be evicted. */
const idleMs = hourMs;
/** How often the description of a series is rewritten: well within the retention of its points. */
const describeEveryMs = 3 * hourMs;
/** Tolerance for clocks that differ. Retention would never remove a row with a time far ahead. */
const maxAheadMs = hourMs;
/** Below the store's queue limit, so that a large request is stored in parts instead of being refused. */
const batchRows = 2_000;
/** How often idle series are evicted, when points arrive. */
const sweepEveryMs = 5 * 60_000;
/** Services whose losses are reported by name; the others are reported together. */
const maxLossKeys = 200;

interface KnownSeries {
  seenMs: number;
  describedMs: number;
}

/** Without a bound, a sender that puts ids into attributes would create a series per request. */
export class MetricIntake {
  readonly #options: MetricIntakeOptions;
  readonly #services = new Map<string, Map<string, KnownSeries>>();
  readonly #losses = new Map<string, { service: string; loss: string; count: number }>();
  readonly #counts: MetricIntakeCounts = { points: 0, series: 0, overSeries: 0, unusable: 0 };
  #sweptMs: number;
  #reportedMs: number;

  constructor(options: MetricIntakeOptions) {
    this.#options = options;
    this.#sweptMs = options.clock.monotonicMs();
    this.#reportedMs = this.#sweptMs;
  }

  get counts(): Readonly<MetricIntakeCounts> {
    return this.#counts;
  }

  /** Resolves when the points are durable, with the rejected ones; rejects as the store does. */
  async store(points: readonly MetricPoint[]): Promise<RejectedPoints> {
    const { store, clock } = this.#options;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#sweptMs >= sweepEveryMs) this.#sweep(nowMs);
    const rows: MetricPointRow[] = [];
    const described: { row: MetricSeriesRow; known: KnownSeries }[] = [];
    let message = "";
    for (const point of points) {
      const taken = this.#take(point, nowMs);
      if (typeof taken === "string") message ||= taken;
      else {
        rows.push(taken.row);
        if (taken.described) described.push({ row: taken.described, known: taken.known });
      }
    }
    try {
      await appendAll(rows, (part) => store.append(metricPoint, part));
      const seriesRows = described.map(({ row }) => row);
      await appendAll(seriesRows, (part) => store.append(metricSeries, part));
    } catch (error) {
      // On failure, they are described with their next points.
      for (const { known } of described) known.describedMs = Number.NEGATIVE_INFINITY;
      throw error;
    }
    this.#counts.points += rows.length;
    return { rejected: points.length - rows.length, message };
  }

  /** Counts points of a service that were dropped elsewhere. */
  lose(service: string, loss: string, count: number): void {
    const isKnown = this.#losses.has(`${loss} ${service}`);
    const name = isKnown || this.#losses.size < maxLossKeys ? service : "";
    const key = `${loss} ${name}`;
    const found = this.#losses.get(key);
    if (found) found.count += count;
    else this.#losses.set(key, { service: name, loss, count });
  }

  /** Stores the losses since the last call. Call about once a minute. */
  async reportLosses(): Promise<void> {
    const { store, clock } = this.#options;
    const nowMs = clock.monotonicMs();
    const window = { at: Math.round(clock.wallMs() * 1_000), mono_ms: nowMs, window_ms: Math.round(nowMs - this.#reportedMs) };
    this.#reportedMs = nowMs;
    const rows = [...this.#losses.values()].map((loss) => ({ ...window, ...loss }));
    this.#losses.clear();
    if (rows.length > 0) await store.append(metricLoss, rows);
  }

  #take(point: MetricPoint, nowMs: number): { row: MetricPointRow; described: MetricSeriesRow | undefined; known: KnownSeries } | string {
    const wallUs = Math.round(this.#options.clock.wallMs() * 1_000);
    if (point.timeUs > wallUs + maxAheadMs * 1_000) return this.#refuse(point, "future", "a point's time is more than an hour ahead");
    const series = seriesOf(point);
    const row = metricRowOf(point, series, nowMs);
    if (row === undefined) return this.#refuse(point, "unusable", "a point has a number that cannot be stored");
    const known = this.#know(point.service, series, nowMs);
    if (known === undefined) return this.#refuse(point, "series-full", "the service has too many series; use fewer attributes");
    const isDue = nowMs - known.describedMs >= describeEveryMs;
    if (isDue) known.describedMs = nowMs;
    return { row, known, described: isDue ? metricSeriesRowOf(point, series, wallUs, nowMs) : undefined };
  }

  #refuse(point: MetricPoint, loss: "future" | "unusable" | "series-full", message: string): string {
    this.lose(point.service, loss, 1);
    if (loss === "series-full") this.#counts.overSeries++;
    else this.#counts.unusable++;
    return message;
  }

  #know(service: string, series: string, nowMs: number): KnownSeries | undefined {
    const { maxSeriesPerService = 5_000, maxSeries = 50_000 } = this.#options;
    const ofService = this.#services.get(service) ?? new Map<string, KnownSeries>();
    const found = ofService.get(series);
    if (found) {
      found.seenMs = nowMs;
      return found;
    }
    if (ofService.size >= maxSeriesPerService || this.#counts.series >= maxSeries) return undefined;
    const made = { seenMs: nowMs, describedMs: Number.NEGATIVE_INFINITY };
    ofService.set(series, made);
    this.#services.set(service, ofService);
    this.#counts.series++;
    return made;
  }

  #sweep(nowMs: number): void {
    this.#sweptMs = nowMs;
    for (const [service, known] of this.#services) {
      for (const [series, { seenMs }] of known) {
        if (nowMs - seenMs < idleMs) continue;
        known.delete(series);
        this.#counts.series--;
      }
      if (known.size === 0) this.#services.delete(service);
    }
  }
}

async function appendAll<Row>(rows: readonly Row[], append: (part: readonly Row[]) => Promise<unknown>): Promise<void> {
  for (let start = 0; start < rows.length; start += batchRows) await append(rows.slice(start, start + batchRows));
}
