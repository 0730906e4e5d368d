/** Records an event when a service becomes degraded, critical or ok again. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { type ColonyStore, recordEvent } from "../../store/colony/index.ts";
import { queryHealthEvents } from "../../store/queries/index.ts";
import { type ColonyBackend, readHealth, type ServiceSummary } from "../../tools/index.ts";

export interface HealthWatchOptions {
  store: ColonyStore;
  backend: Pick<ColonyBackend, "agents" | "deployments" | "summary">;
  /** Service id of a label. */
  serviceId: (label: string) => Promise<string>;
  /** Rises when requests or events arrive. */
  newest: () => number;
  clock: Clock;
  log: Logger;
}

type Level = "ok" | "degraded" | "critical";

interface Watched {
  level: Level;
  /** A change seen once; recorded when the next evaluation agrees. */
  next: Level | null;
}

/** Evaluation interval without new rows, when little can change. */
const quietIntervalMs = 120_000;
const rememberedMs = 24 * 3_600_000;
const kinds = { ok: "service-recovered", degraded: "service-degraded", critical: "service-critical" } as const;

export class HealthWatch {
  readonly #options: HealthWatchOptions;
  readonly #services = new Map<string, Watched>();
  #isLoaded = false;
  #newest = -1;
  #evaluatedMs = Number.NEGATIVE_INFINITY;

  constructor(options: HealthWatchOptions) {
    this.#options = options;
  }

  /** Called every ten seconds. Evaluates when something arrived, while something is wrong, and every two minutes. */
  async step(signal: AbortSignal): Promise<void> {
    const { clock, backend } = this.#options;
    if (!this.#isLoaded) await this.#load();
    const newest = this.#options.newest();
    const isIll = [...this.#services.values()].some(({ level, next }) => level !== "ok" || next !== null);
    const isDue = clock.monotonicMs() - this.#evaluatedMs >= quietIntervalMs;
    if (newest === this.#newest && !isIll && !isDue) return;
    this.#newest = newest;
    this.#evaluatedMs = clock.monotonicMs();
    await this.#evaluate(await readHealth(backend, { signal }));
  }

  async #evaluate(summaries: readonly ServiceSummary[]): Promise<void> {
    const seen = new Set<string>();
    for (const summary of summaries) {
      const service = await this.#options.serviceId(summary.service);
      seen.add(service);
      await this.#observe(service, summary);
    }
    // A service that is no longer listed cannot recover.
    for (const service of this.#services.keys()) if (!seen.has(service)) this.#services.delete(service);
  }

  async #observe(service: string, { health, findings, service: label }: ServiceSummary): Promise<void> {
    // `unknown` is neither a fault nor a recovery.
    if (health === "unknown") return;
    const watched = this.#services.get(service) ?? { level: "ok", next: null };
    this.#services.set(service, watched);
    if (health === watched.level) {
      watched.next = null;
      return;
    }
    if (watched.next !== health) {
      watched.next = health;
      return;
    }
    const before = watched.level;
    watched.level = health;
    watched.next = null;
    const [worst] = findings;
    const reason = health === "ok" ? "" : (worst?.message ?? "");
    const message = health === "ok" ? `${label} is ok again, after it was ${before}` : `${label} is ${health}: ${reason}`;
    this.#options.log.info(message, { service });
    await recordEvent(this.#options.store, {
      at: this.#options.clock.wallMs() * 1_000,
      kind: kinds[health],
      agentId: null,
      message,
      details: { service, before, after: health, reason, rule: worst?.rule ?? null, subject: worst?.subject ?? null },
    });
  }

  /** Loads the last reported states, so that a restart repeats nothing and misses no recovery. */
  async #load(): Promise<void> {
    const { store, clock } = this.#options;
    for (const { service, after } of await queryHealthEvents(store, { sinceMs: rememberedMs, nowMs: clock.wallMs() }))
      if (after === "degraded" || after === "critical") this.#services.set(service, { level: after, next: null });
    this.#isLoaded = true;
  }
}
