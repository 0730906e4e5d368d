/** Plays a recording at its original pace or faster, with long pauses shortened. */

import { sleep } from "../../base/clock.ts";
import type { CliIo } from "../output/cli-io.ts";
import { type CastEvent, type CastHeader, isHeader } from "./asciicast.ts";
import { HarmlessOutput, resetTerminal } from "./harmless-output.ts";

export interface PlayOptions {
  /** 2 is twice as fast; Infinity plays without pauses. */
  speed: number;
  /** Longer pauses are shortened to this. */
  idleLimitMs: number;
  /** Pass escape sequences unfiltered. */
  isRaw: boolean;
  onHeader: (header: CastHeader) => void;
}

export interface PlayEnd {
  /** Length of the played part. */
  lengthMs: number;
  /** False when the viewer quit. */
  isComplete: boolean;
}

/** Keys on a terminal: space pauses and resumes, q and Ctrl-C quit. */
export async function playCast(items: AsyncIterable<CastHeader | CastEvent>, io: CliIo, options: PlayOptions): Promise<PlayEnd> {
  const stop = new AbortController();
  const signal = AbortSignal.any([io.signal, stop.signal]);
  const pause = new Pause();
  const isTerminal = io.stdout.isTTY === true;
  const releaseKeys = isTerminal
    ? io.terminal?.readKeys((key) => {
        if (key.includes("q") || key.includes("\u0003")) stop.abort();
        else if (key.includes(" ")) pause.toggle();
      })
    : undefined;
  const onInterrupt = (): void => stop.abort();
  process.once("SIGINT", onInterrupt);
  const filter = new HarmlessOutput();
  let lengthMs = 0;
  try {
    for await (const item of items) {
      if (isHeader(item)) {
        options.onHeader(item);
        continue;
      }
      // A negative wait, from a recording whose clock was set back, plays the event at once.
      const waitMs = Math.min(item.atMs - lengthMs, options.idleLimitMs) / options.speed;
      if (waitMs > 0) await sleep(waitMs, signal);
      await pause.over(signal);
      if (signal.aborted) break;
      lengthMs = Math.max(lengthMs, item.atMs);
      // Play output only. It includes echoed input, but no passwords, which are not echoed.
      if (item.kind === "o") await write(io, options.isRaw ? item.data : filter.filter(item.data), signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    process.removeListener("SIGINT", onInterrupt);
    releaseKeys?.();
    if (isTerminal) io.stdout.write(`${resetTerminal}\n`);
  }
  return { lengthMs, isComplete: !signal.aborted };
}

/** Waits for stdout to drain: recordings can be larger than memory. */
async function write(io: CliIo, text: string, signal: AbortSignal): Promise<void> {
  if (text === "") return;
  io.stdout.write(text);
  if (!io.stdout.writableNeedDrain || !io.stdout.once) return;
  await new Promise<void>((resolve) => {
    io.stdout.once?.("drain", resolve);
    io.stdout.once?.("close", resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** A latch that the space bar toggles; playback awaits it before each event. */
class Pause {
  #resume: (() => void) | undefined;
  #waiting: Promise<void> | undefined;

  toggle(): void {
    if (this.#resume) {
      this.#resume();
      this.#resume = undefined;
      this.#waiting = undefined;
      return;
    }
    this.#waiting = new Promise((resolve) => {
      this.#resume = resolve;
    });
  }

  async over(signal: AbortSignal): Promise<void> {
    while (this.#waiting && !signal.aborted) {
      const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      await Promise.race([this.#waiting, ended]);
    }
  }
}
