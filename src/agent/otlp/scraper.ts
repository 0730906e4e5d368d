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

export class Scraper {
  readonly #options: ScraperOptions;
  readonly #limit = new Semaphore(concurrency);
  /** By URL; absent while scrapes succeed. */
  readonly #problems = new Map<string, string>();

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
    await intake.store([
      ownGauge("up", "1", problem === "" ? 1 : 0, source),
      ownGauge("scrape_duration_seconds", "s", durationSeconds, source),
      ...points,
    ]);
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
