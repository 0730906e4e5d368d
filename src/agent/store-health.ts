/** Whether rows can be stored now, and the agent's events about a full disk and a damaged store. */

import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Opened } from "../store/engine/index.ts";
import type { event, RowOf } from "../store/signals/index.ts";

type EventRow = RowOf<typeof event.columns>;

export interface StoreHealthOptions {
  append: (row: EventRow) => Promise<unknown>;
  clock: Clock;
  log: Logger;
}

interface Interruption {
  /** Of the first refusal, wall. */
  sinceMs: number;
  /** Of the last one, monotonic. */
  refusedAtMs: number;
  message: string;
  /** Signals whose last append failed. On a full disk a few rows still fit into the last block, so one stored signal proves nothing about others. */
  signals: Set<string>;
}

/** After this time without a refusal, any stored row ends the interruption: signals with rare rows may not be appended again for hours. */
const quietMs = 10_000;

/** Watches results of appends. It never touches the disk itself. */
export class StoreHealth {
  readonly #options: StoreHealthOptions;
  #failing: Interruption | undefined;

  constructor(options: StoreHealthOptions) {
    this.#options = options;
  }

  /** Why nothing can be stored; empty while rows are stored. */
  get problem(): string {
    return this.#failing?.message ?? "";
  }

  /** An append failed. A full queue and a bad row are not the store's fault. */
  refused(signal: string, failure: CoralError): void {
    const kind = failure.details["failure"];
    if (failure.code !== "corrupt" && (kind === undefined || kind === "statement")) return;
    const { clock } = this.#options;
    const { sinceMs, signals } = this.#failing ?? { sinceMs: clock.wallMs(), signals: new Set() };
    this.#failing = { sinceMs, refusedAtMs: clock.monotonicMs(), message: failure.message, signals: signals.add(signal) };
  }

  /** Rows were stored. Records the interruption that ends with them as an event, which needs the store itself. */
  async stored(signal: string): Promise<void> {
    const before = this.#failing;
    if (before === undefined) return;
    before.signals.delete(signal);
    const isQuiet = this.#options.clock.monotonicMs() - before.refusedAtMs >= quietMs;
    if (before.signals.size > 0 && !isQuiet) return;
    this.#failing = undefined;
    const untilMs = this.#options.clock.wallMs();
    const since = new Date(before.sinceMs).toISOString();
    const row = this.#row("store-write-failed", `The agent could not store rows since ${since}: ${before.message}`, {
      fromMs: Math.round(before.sinceMs),
      untilMs: Math.round(untilMs),
    });
    await this.#options.append(row).catch((error: unknown) => {
      // Still interrupted: the next stored row reports the whole interruption.
      if (this.#failing) this.#failing = { ...this.#failing, sinceMs: before.sinceMs };
      this.#options.log.warn("cannot record that rows could not be stored", { error: CoralError.from(error).message });
    });
  }

  /** A damaged file was replaced by an empty one, at start or in use. */
  async replaced(opened: Opened): Promise<void> {
    if (opened.how !== "recovered") return;
    const { reason, movedTo } = opened;
    const message = `The agent's store was damaged (${reason}) and was replaced by an empty one; the damaged file is kept at ${movedTo}`;
    await this.#options.append(this.#row("store-damaged", message, { reason, movedTo })).catch((error: unknown) => {
      this.#options.log.warn("cannot record that the store was damaged", { error: CoralError.from(error).message });
    });
  }

  #row(kind: string, message: string, details: Record<string, unknown>): EventRow {
    const { clock } = this.#options;
    return {
      at: Math.round(clock.wallMs() * 1_000),
      mono_ms: Math.round(clock.monotonicMs()),
      kind,
      severity: "error",
      service: null,
      pid: null,
      message,
      details: JSON.stringify(details),
    };
  }
}
