/** The agent's background loops and their intervals. */

import { repeat } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { AgentConfig } from "../config/index.ts";
import type { MetricIntake } from "../otlp/index.ts";
import type { AgentStore } from "../store/agent/index.ts";
import { runCollectLoop } from "./collect-loop.ts";
import type { Collectors } from "./collectors.ts";
import { type ObservedTime, observedIntervalMs } from "./host/observed-time.ts";
import type { ColonyLink } from "./link/colony-link.ts";
import type { RuntimeWatch } from "./link/runtime-watch.ts";
import type { KubernetesPods } from "./naming/kubernetes-pods.ts";
import type { Managed } from "./open-managed.ts";
import type { LogPatterns } from "./otlp/log-patterns.ts";
import type { LogTails } from "./otlp/log-tails.ts";
import type { Scraper } from "./otlp/scraper.ts";

/** The parts that need regular work. */
export interface AgentLoopParts {
  config: () => AgentConfig;
  store: AgentStore;
  link: ColonyLink;
  managed: Managed;
  collectors: Collectors;
  observed: ObservedTime;
  watch: RuntimeWatch;
  pods: KubernetesPods | undefined;
  scraper: Scraper;
  metricIntake: MetricIntake;
  logTails: LogTails;
  logPatterns: LogPatterns;
  clock: Clock;
  log: Logger;
}

/** How often the description is compared with the reported one; costs no I/O. */
const capabilityIntervalMs = 2_000;
/** Kubernetes API: one list request per node and minute. */
const podIntervalMs = 60_000;
/** Losses of metric points are stored as rows, so often enough for a query's completeness. */
const lossIntervalMs = 60_000;
/** Delay of a log line at the agent, and the unit of the per-round read limits. */
const tailIntervalMs = 500;
/** While no logs are configured, to pick up a reload. Each wake-up of an idle process costs about 0.1 ms of CPU. */
const noTailIntervalMs = 5_000;
/** The window of log pattern counts; bursts compare windows of this length. */
const patternIntervalMs = 60_000;
/** Retention and the byte limit are enforced at this interval. */
const pruneIntervalMs = 60_000;

/** One promise per loop; each resolves when aborted. */
export function runAgentLoops(parts: AgentLoopParts, signal: AbortSignal): Promise<void>[] {
  const { config, store, link, managed, collectors, watch, pods, scraper, clock, log } = parts;
  const every = (intervalMs: number | (() => number), name: string, work: () => Promise<unknown>): Promise<void> =>
    repeat(name, intervalMs, work, log, signal);
  return [
    link.run(signal),
    managed.checks.run(signal, () => collectors.rescan()),
    ...collectors.run(signal),
    every(observedIntervalMs, "Recording observed time", () => parts.observed.beat()),
    every(capabilityIntervalMs, "Reporting capabilities", () => watch.reportWhenDue(signal)),
    watch.run(() => config().runtime.refreshIntervalMs, signal),
    ...(pods ? [every(podIntervalMs, "Pod labels", () => pods.refresh(signal))] : []),
    runCollectLoop(
      {
        name: "scraped metrics",
        intervalMs: () => config().scrape.intervalMs,
        collect: (until) => scraper.collect(until),
        clock,
        log: log.child("scrape"),
      },
      signal,
    ),
    every(lossIntervalMs, "Recording metric losses", () => parts.metricIntake.reportLosses()),
    every(
      () => (parts.logTails.isIdle ? noTailIntervalMs : tailIntervalMs),
      "Reading logs",
      () => parts.logTails.round(),
    ),
    every(patternIntervalMs, "Log patterns", () => parts.logPatterns.endWindow(store)),
    every(pruneIntervalMs, "Retention", () => store.prune()),
  ];
}
