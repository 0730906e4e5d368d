/**
 * Detects unobserved time: the agent was stopped or killed, or its host was down or suspended. The agent writes a mark to a file every two seconds.
 * The time between the last mark and the next start becomes an event, which the colony pulls like any other.
 */

import { readFile, writeFile } from "node:fs/promises";
import type { Clock } from "../../base/clock.ts";
import { formatDurationMs } from "../../base/units.ts";
import { type FileOwner, writePrivateFile } from "../../config/index.ts";
import { type UnobservedReason, unobservedKind } from "../../model/events.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import { event, type RowOf } from "../../store/signals/index.ts";

export interface ObservedTimeOptions {
  file: string;
  owner: FileOwner | undefined;
  /** Id of this boot; empty when the kernel does not report it. */
  bootId: string;
  store: Pick<AgentStore, "append">;
  /** Milliseconds that a killed agent had observed but not stored: one window of requests. */
  unstoredMs: () => number;
  clock: Clock;
}

/** Interval of marks: the accuracy of a gap's start after a kill. */
export const observedIntervalMs = 2_000;
/** Shorter interruptions are not recorded. */
const minGapMs = 1_000;
/** A mark that is later than this means a suspended host or a changed clock; a busy process is not that late. */
const minSuspendedMs = 5_000;

/** Marks are padded to this length. */
const markBytes = 192;

/** The last time at which the agent is known to have observed. */
interface ObservedMark {
  wallMs: number;
  monotonicMs: number;
  bootId: string;
  /** The agent shut down cleanly: everything was stored. */
  isStopped: boolean;
}

/** A period without observation, by the wall clock. */
export interface UnobservedGap {
  fromMs: number;
  untilMs: number;
  reason: UnobservedReason;
}

/** Call `start` once observation runs, `beat` every `observedIntervalMs`, and `stop` on shutdown. */
export class ObservedTime {
  readonly #options: ObservedTimeOptions;
  #last: ObservedMark | undefined;

  constructor(options: ObservedTimeOptions) {
    this.#options = options;
  }

  /** Starts observing: the time from the former process's last mark until now was not observed. */
  async start(): Promise<void> {
    const before = await this.#read();
    const now = this.#mark(false);
    const gap = before && gapAtStart(before, now, this.#options.unstoredMs());
    if (gap) await this.#record(gap);
    await this.#write(now);
  }

  /** Call every `observedIntervalMs`. */
  async beat(): Promise<void> {
    const before = this.#last;
    const now = this.#mark(false);
    const gap = before && gapWhileRunning(before, now);
    if (gap) await this.#record(gap);
    await this.#write(now);
  }

  /** Marks a clean shutdown. */
  async stop(): Promise<void> {
    await this.#write(this.#mark(true));
  }

  #mark(isStopped: boolean): ObservedMark {
    const { clock, bootId } = this.#options;
    return { wallMs: Math.round(clock.wallMs()), monotonicMs: Math.round(clock.monotonicMs()), bootId, isStopped };
  }

  async #record(gap: UnobservedGap): Promise<void> {
    await this.#options.store.append(event, [eventOf(gap, this.#options.clock)]);
  }

  async #write(mark: ObservedMark): Promise<void> {
    const { file, owner } = this.#options;
    // In place and without fsync: after a power loss the recorded gap starts slightly too early.
    if (this.#last) await writeFile(file, textOf(mark), { flag: "r+" });
    else await writePrivateFile(file, textOf(mark), { owner });
    this.#last = mark;
  }

  /** Undefined on the first start, and when the file is damaged. */
  async #read(): Promise<ObservedMark | undefined> {
    const text = await readFile(this.#options.file, "utf8").catch(() => "");
    try {
      const { wallMs, monotonicMs, bootId, isStopped } = JSON.parse(text) as Partial<ObservedMark>;
      if (!Number.isSafeInteger(wallMs) || !Number.isSafeInteger(monotonicMs)) return undefined;
      return { wallMs: wallMs ?? 0, monotonicMs: monotonicMs ?? 0, bootId: bootId ?? "", isStopped: isStopped === true };
    } catch {
      return undefined;
    }
  }
}

/** All marks have the same length, so that each one overwrites the previous one completely. */
function textOf(mark: ObservedMark): string {
  return JSON.stringify(mark).padEnd(markBytes);
}

function gapAtStart(before: ObservedMark, now: ObservedMark, unstoredMs: number): UnobservedGap | undefined {
  const isSameBoot = before.bootId === now.bootId;
  // The larger one: the wall clock may have been set back, and the monotonic clock does not count suspended time.
  const missedMs = Math.max(now.wallMs - before.wallMs, isSameBoot ? now.monotonicMs - before.monotonicMs : 0);
  if (missedMs < minGapMs) return undefined;
  const reason = before.isStopped ? "stopped" : isSameBoot ? "killed" : "host-down";
  const lostMs = before.isStopped ? 0 : unstoredMs;
  return { fromMs: now.wallMs - missedMs - lostMs, untilMs: now.wallMs, reason };
}

function gapWhileRunning(before: ObservedMark, now: ObservedMark): UnobservedGap | undefined {
  const suspendedMs = now.wallMs - before.wallMs - (now.monotonicMs - before.monotonicMs);
  if (suspendedMs < minSuspendedMs) return undefined;
  return { fromMs: now.wallMs - suspendedMs, untilMs: now.wallMs, reason: "suspended" };
}

const reasonTexts: Record<UnobservedReason, string> = {
  stopped: "it was stopped",
  killed: "it was killed or crashed",
  "host-down": "its host was down",
  suspended: "its host was suspended, or its clock was set forward",
};

function eventOf({ fromMs, untilMs, reason }: UnobservedGap, clock: Clock): RowOf<typeof event.columns> {
  return {
    at: Math.round(untilMs * 1_000),
    mono_ms: Math.round(clock.monotonicMs()),
    kind: unobservedKind,
    severity: reason === "stopped" ? "info" : "warning",
    service: null,
    pid: null,
    message: `The agent observed nothing for ${formatDurationMs(untilMs - fromMs)}: ${reasonTexts[reason]}`,
    details: JSON.stringify({ fromMs, untilMs, reason }),
  };
}
