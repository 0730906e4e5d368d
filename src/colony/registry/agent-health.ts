/**
 * Health of one agent by silence, on the monotonic clock. Two thresholds going down and several contacts in a row going up, so that
 * a healthy agent never flickers and a flapping one does not look healthy.
 */

export type AgentHealth = "healthy" | "degraded" | "unhealthy";

export interface HealthThresholds {
  /** Silence after which an agent is degraded. Default of the colony: 45 s, nine pulls. */
  degradedAfterMs: number;
  /** Silence after which an agent is unhealthy. Default of the colony: 2 min. */
  unhealthyAfterMs: number;
}

/** Contacts in a row, each in time, that a degraded or unhealthy agent needs to be healthy again. */
const contactsToRecover = 3;

export class HealthTracker {
  readonly #thresholds: HealthThresholds;
  #lastContactMs: number;
  #state: AgentHealth = "healthy";
  #contactsInARow = 0;

  constructor(thresholds: HealthThresholds, lastContactMs: number) {
    this.#thresholds = thresholds;
    this.#lastContactMs = lastContactMs;
  }

  get lastContactMs(): number {
    return this.#lastContactMs;
  }

  contact(nowMs: number): void {
    this.evaluate(nowMs);
    this.#lastContactMs = nowMs;
    if (this.#state === "healthy") return;
    this.#contactsInARow++;
    if (this.#contactsInARow >= contactsToRecover) this.#state = "healthy";
    else this.#state = "degraded";
  }

  evaluate(nowMs: number): AgentHealth {
    const silentMs = nowMs - this.#lastContactMs;
    if (silentMs >= this.#thresholds.unhealthyAfterMs) {
      this.#state = "unhealthy";
      this.#contactsInARow = 0;
    } else if (silentMs >= this.#thresholds.degradedAfterMs) {
      if (this.#state === "healthy") this.#state = "degraded";
      this.#contactsInARow = 0;
    }
    return this.#state;
  }
}

/**
 * When the colony itself was away, nobody could be seen: an agent's silence is counted against the last moment that the colony saw
 * anyone, not against now. Takes and gives wall-clock ages in milliseconds.
 */
export function silenceBeforeRestartMs(lastSeenMs: number, newestLastSeenMs: number): number {
  return Math.max(0, newestLastSeenMs - lastSeenMs);
}
