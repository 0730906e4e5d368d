/** Scrapes Prometheus endpoints that the config lists. */

import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import type { AgentScrapeConfig, ScrapeTarget } from "../../config/index.ts";
import { type MetricIntake, type MetricPoint, parsePrometheusText, scrapedFrom } from "../../otlp/index.ts";
import { type ReadUrlOptions, type ReadUrlResult, readUrl } from "../../transport/index.ts";

export interface ScraperOptions {
  config: () => AgentScrapeConfig;
  intake: Pick<MetricIntake, "store" | "lose">;
  clock: Clock;
  log: Logger;
  /** For tests. Default: readUrl. */
  read?: (options: ReadUrlOptions) => Promise<ReadUrlResult>;
}

/** Concurrent scrapes. */
const concurrency = 4;
/** Per target and scrape. */
const maxSamples = 20_000;
const accept = "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5";

/** One instance for all targets. Each `collect` scrapes every target, and passes points on like an OTLP request. */
export class Scraper {
  readonly #options: ScraperOptions;
  readonly #limit = new Semaphore(concurrency);
  /** By URL; absent while scrapes succeed. */
  readonly #problems = new Map<string, string>();
  /** By service and URL. */
  readonly #live = new Map<string, LiveTarget>();

  constructor(options: ScraperOptions) {
    this.#options = options;
  }

  /** Sentences about targets whose last scrape failed. */
  notes(): string[] {
    return [...this.#problems.values()];
  }

  /** Scrapes every target once. A failure shows in `up` and in the losses. */
  async collect(signal: AbortSignal): Promise<void> {
    const { targets } = this.#options.config();
    const urls = new Set(targets.map(({ url }) => url));
    for (const url of this.#problems.keys()) if (!urls.has(url)) this.#problems.delete(url);
    await this.#endRemoved(new Set(targets.map(keyOf)));
    await Promise.all(targets.map((target) => this.#limit.run(() => this.#scrape(target, signal))));
  }

  async #scrape(target: ScrapeTarget, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { intake, clock, config, read = readUrl } = this.#options;
    const { timeoutMs, maxBodyBytes } = config();
    const startMs = clock.monotonicMs();
    const atUs = Math.round(clock.wallMs() * 1_000);
    const instance = new URL(target.url).host;
    let points: MetricPoint[] = [];
    let problem = "";
    try {
      const { body, contentType } = await read({ url: target.url, accept, timeoutMs, maxBytes: maxBodyBytes, signal });
      const isOpenMetrics = contentType.includes("openmetrics");
      const scraped = parsePrometheusText(body, { service: target.service, instance, atUs, isOpenMetrics, maxSamples });
      points = scraped.points;
      if (scraped.cut > 0) intake.lose(target.service, "scrape-full", scraped.cut);
      if (scraped.malformed > 0) intake.lose(target.service, "unusable", scraped.malformed);
    } catch (error) {
      if (signal.aborted) return;
      problem = CoralError.from(error).message;
      intake.lose(target.service, "scrape-failed", 1);
    }
    this.#logChange(target, problem);
    const durationSeconds = (clock.monotonicMs() - startMs) / 1_000;
    const source = { service: target.service, instance, atUs };
    // First, so that a target with more series than the limit still has these two.
    const own = [ownGauge("up", "1", problem === "" ? 1 : 0, source), ownGauge("scrape_duration_seconds", "s", durationSeconds, source)];
    // A target that sends its own timestamps decides itself when its series end.
    const current = new Map(points.filter(({ timeUs }) => timeUs === atUs).map((point) => [seriesKey(point), point]));
    const before = this.#live.get(keyOf(target))?.series;
    const ended = [...(before ?? [])].filter(([key]) => !current.has(key)).map(([, point]) => endOf(point, atUs));
    await intake.store([...own, ...points, ...ended]);
    this.#live.set(keyOf(target), {
      own: own.map(withoutValues),
      series: new Map([...current].map(([key, point]) => [key, withoutValues(point)])),
    });
  }

  /** Ends the series of targets that are no longer listed, so that they do not keep the values of their last scrape. */
  async #endRemoved(listed: ReadonlySet<string>): Promise<void> {
    const atUs = Math.round(this.#options.clock.wallMs() * 1_000);
    for (const [key, { own, series }] of this.#live) {
      if (listed.has(key)) continue;
      await this.#options.intake.store([...own, ...series.values()].map((point) => endOf(point, atUs)));
      this.#live.delete(key);
    }
  }

  #logChange({ url }: ScrapeTarget, problem: string): void {
    const before = this.#problems.get(url) ?? "";
    if (problem === "") this.#problems.delete(url);
    else this.#problems.set(url, problem);
    // Logged on change, not at every scrape.
    if (problem !== "" && before === "") this.#options.log.warn(`Scrape failed: ${problem}; retrying at the next interval`);
    else if (problem === "" && before !== "") this.#options.log.info(`Scraping ${url} again`);
  }
}

/** What the last scrape of a target gave, without values. At most `maxSamples` series. */
interface LiveTarget {
  own: MetricPoint[];
  series: Map<string, MetricPoint>;
}

function keyOf({ service, url }: ScrapeTarget): string {
  return JSON.stringify([service, url]);
}

function seriesKey({ name, kind, unit, attributes }: MetricPoint): string {
  return JSON.stringify([name, kind, unit, attributes]);
}

/** What all points of a series share. */
function withoutValues(point: MetricPoint): MetricPoint {
  const { service, serviceInstance: instance, name, description, unit, kind, temporality, isMonotonic, attributes, timeUs } = point;
  return { ...scrapedFrom({ service, instance }), name, description, unit, kind, temporality, isMonotonic, attributes, timeUs };
}

/** Marks the end of a series, as Prometheus' staleness markers do: from then on it has no value, instead of its last one for five minutes. */
function endOf(point: MetricPoint, timeUs: number): MetricPoint {
  return { ...point, timeUs, hasNoValue: true };
}

function ownGauge(name: string, unit: string, value: number, source: { service: string; instance: string; atUs: number }): MetricPoint {
  return {
    ...scrapedFrom(source),
    name,
    description: "",
    unit,
    kind: "gauge",
    temporality: "unspecified",
    isMonotonic: false,
    attributes: "{}",
    timeUs: source.atUs,
    value,
  };
}
