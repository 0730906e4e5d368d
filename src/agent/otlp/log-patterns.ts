/** Log patterns at an agent: per-minute counts in the store, and an event for a new pattern or a burst. */

import type { Clock } from "../../base/clock.ts";
import { LogPatternRegistry, type PatternEvent, type PatternWindow } from "../../otlp/index.ts";
import { type AgentStore } from "../../store/agent/index.ts";
import { event, logPattern, type RowOf, type SampleTime } from "../../store/signals/index.ts";

/** Patterns loaded from the store at the start. */
const maxLoaded = 10_000;

/** Decode workers find patterns; this counts them per window, stores the counts, and turns new patterns and bursts into events. */
export class LogPatterns {
  readonly #clock: Clock;
  readonly #registry = new LogPatternRegistry();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** For the decode workers. */
  readonly intake = {
    onPatterns: (patterns: Parameters<LogPatternRegistry["add"]>[0]): void => this.#registry.add(patterns, this.#clock.wallMs()),
    knownTemplates: (): readonly { service: string; template: string }[] => this.#registry.templates(),
  };

  /** Loads stored patterns, so that they do not count as new after a restart. */
  async load(store: Pick<AgentStore, "query">): Promise<void> {
    const rows = await store.query(
      `SELECT service, pattern, any_value(template) AS template, epoch_ms(min("time")) AS first_ms, max("time") AS last_at
       FROM log_pattern GROUP BY service, pattern ORDER BY last_at DESC LIMIT ${maxLoaded}`,
    );
    // Oldest first: the most recent patterns are evicted last.
    this.#registry.load(
      rows.reverse().map((row) => ({
        service: String(row["service"]),
        pattern: String(row["pattern"]),
        template: String(row["template"]),
        firstMs: Number(row["first_ms"]),
      })),
    );
  }

  /** Call once a minute: writes the counts and events of the window. */
  async endWindow(store: Pick<AgentStore, "append">): Promise<void> {
    const nowMs = this.#clock.wallMs();
    const time: SampleTime = { at: Math.round(nowMs * 1_000), mono_ms: Math.round(this.#clock.monotonicMs()) };
    const { rows, events } = this.#registry.endWindow(nowMs);
    if (rows.length > 0)
      await store.append(
        logPattern,
        rows.map((row) => rowOf(row, time)),
      );
    if (events.length > 0)
      await store.append(
        event,
        events.map((each) => eventOf(each, time)),
      );
  }
}

function rowOf({ isNew, ...row }: PatternWindow, time: SampleTime): RowOf<typeof logPattern.columns> {
  return { ...time, ...row, is_new: isNew };
}

function eventOf({ details, ...row }: PatternEvent, time: SampleTime): RowOf<typeof event.columns> {
  return { ...time, ...row, pid: null, details: JSON.stringify(details) };
}
