/**
 * Health of one agent from the time since its last contact, on the monotonic clock. Going down takes one of two thresholds, going up takes several
 * contacts in a row: a healthy agent never flickers, and a flapping one does not look healthy.
 */

export type AgentHealth = "healthy" | "degraded" | "unhealthy";

export interface HealthThresholds {
  /** Silence after which an agent is degraded. Default: 45 s, nine pulls. */
  degradedAfterMs: number;
  /** Silence after which an agent is unhealthy. Default: 2 min. */
  unhealthyAfterMs: number;
}

/** Consecutive contacts, each in time, that make a degraded or unhealthy agent healthy again. */
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
 * How long an agent had been silent when the colony stopped. Measured against the last contact of any agent, not against now: while the colony was
 * down it could not see any agent. Wall-clock milliseconds.
 */
export function silenceBeforeRestartMs(lastSeenMs: number, newestLastSeenMs: number): number {
  return Math.max(0, newestLastSeenMs - lastSeenMs);
}
