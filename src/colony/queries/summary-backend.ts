/** The backend's queries of service health and deployments. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { SummaryFacts } from "../../model/summary.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import {
  BaselineCache,
  hasRequests,
  queryLogServices,
  queryRouteHealth,
  queryServiceDetails,
  queryServices,
  querySpanProcesses,
  querySummary,
} from "../../store/queries/index.ts";
import { serviceAliases } from "../../tools/index.ts";
import type { DeploymentWatch } from "../deployments/deployment-watch.ts";
import type { DiscoveryLoop } from "../discovery/discovery-loop.ts";
import type { ResolvedBackend } from "../identity/label-backend.ts";
import { SharedResults } from "./shared-results.ts";

export type SummaryBackend = Pick<
  ResolvedBackend,
  "summary" | "routeHealth" | "serviceDetails" | "logServices" | "deployments" | "markDeployment"
>;

export interface SummaryBackendOptions {
  store: ColonyStore;
  discovery: Pick<DiscoveryLoop, "catchUp">;
  deployments: Pick<DeploymentWatch, "list" | "mark">;
  clock: Clock;
  log: Logger;
}

/** How long span-name aliases are cached: processes seldom change their name. */
const aliasesKeptMs = 60_000;
/** Less than the interval of the health watch, which must not see the same facts twice. Rows are of ten seconds each. */
const summaryMaxAgeMs = 2_000;
const summariesKept = 8;

export function createSummaryBackend({ store, discovery, deployments, clock, log }: SummaryBackendOptions): SummaryBackend {
  const aliases = new Aliases(store, clock, log);
  const baselines = new BaselineCache();
  const shared = new SharedResults<SummaryFacts>({
    clock,
    maxAgeMs: summaryMaxAgeMs,
    maxKept: summariesKept,
    version: () => store.database.commits,
    // Right after a start, an empty result is cheap, and caching it would hide the first services.
    isShared: ({ places, requests }) => places.length > 0 || requests.length > 0,
  });
  const readSummary: SummaryBackend["summary"] = async (request) => {
    const nowMs = clock.wallMs();
    const facts = await querySummary(store, { ...request, nowMs }, baselines);
    const isUnseen = request.service !== undefined && facts.requests.length === 0 && facts.hasSpans;
    const known = isUnseen || facts.requests.some(({ source }) => source === "spans") ? await aliases.current() : new Map<string, string>();
    // Its spans may use another name than its process.
    const [name] = isUnseen ? ([...known].find(([, service]) => service === request.service) ?? []) : [];
    const requests = name === undefined ? facts.requests : (await querySummary(store, { ...request, service: name, nowMs })).requests;
    return { ...facts, requests, nowMs, aliases: known };
  };
  return {
    summary: async (request, context) => {
      await discovery.catchUp();
      // Verdicts need the facts of all services, even for one: by far the most expensive part of several tools.
      return request.service === undefined
        ? await shared.get(String(request.sinceMs), () => readSummary(request, context))
        : await readSummary(request, context);
    },
    routeHealth: async ({ service }) => {
      const texts = typeof service === "string" ? [service] : [...service];
      const nowMs = clock.wallMs();
      const byHooks = queryRouteHealth(store, { source: "hooks", services: texts, nowMs });
      if (!(await hasRequests(store, "spans"))) return (await byHooks).routes;
      const inSpans = [...(await aliases.current())].flatMap(([name, owner]) => (texts.includes(owner) ? [name] : []));
      const bySpans = queryRouteHealth(store, { source: "spans", services: [...new Set([...texts, ...inSpans])], nowMs });
      return (await Promise.all([byHooks, bySpans])).flatMap(({ routes }) => routes);
    },
    serviceDetails: (request) => queryServiceDetails(store, { ...request, nowMs: clock.wallMs() }),
    logServices: (request) => queryLogServices(store, { ...request, nowMs: clock.wallMs() }),
    deployments: (request) => deployments.list(request),
    markDeployment: (request, context) => deployments.mark(request, context.caller ?? null),
  };
}

/** Names in spans → service names. Refreshed in the background: only the first query waits. */
class Aliases {
  readonly #store: ColonyStore;
  readonly #clock: Clock;
  readonly #log: Logger;
  #known: ReadonlyMap<string, string> | undefined;
  #reading: Promise<void> | undefined;
  #readMs = Number.NEGATIVE_INFINITY;

  constructor(store: ColonyStore, clock: Clock, log: Logger) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  async current(): Promise<ReadonlyMap<string, string>> {
    if (this.#clock.monotonicMs() - this.#readMs > aliasesKeptMs) {
      this.#reading ??= this.#read().finally(() => {
        this.#reading = undefined;
      });
    }
    if (this.#known === undefined) await this.#reading;
    return this.#known ?? new Map();
  }

  async #read(): Promise<void> {
    this.#readMs = this.#clock.monotonicMs();
    try {
      const [processes, services] = await Promise.all([
        querySpanProcesses(this.#store, { nowMs: this.#clock.wallMs() }),
        queryServices(this.#store, { processes: false }),
      ]);
      this.#known = serviceAliases(processes, services);
    } catch (error) {
      // Without aliases a service may appear once per name, which is better than failing.
      this.#log.debug("Cannot refresh the service names of spans; using the cached ones", { error });
    }
  }
}
