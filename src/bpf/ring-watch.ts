/** Watches a ring: a thread of the pool sleeps until a program wakes the ring's readers. See probes/core/ring-wake.h. */

import { CoralError } from "../base/errors.ts";
import type { Libbpf } from "./libbpf.ts";

/** Disposal ends the wait, and resolves when the thread is free again. Idempotent. */
export type RingWatch = AsyncDisposable;

/**
 * Calls `onWake` on the main thread soon after a record woke the ring's readers; wake-ups at the same time are one call. Holds a thread of the pool
 * until disposed. Throws `unavailable` if the kernel refuses.
 */
export function openRingWatch(libbpf: Libbpf, ringFd: number, onWake: () => void): RingWatch {
  return new Watch(libbpf, ringFd, onWake);
}

class Watch implements RingWatch {
  readonly #libbpf: Libbpf;
  /** Written to end the wait. */
  readonly #stop: number;
  readonly #poll: number;
  readonly #waiting: Promise<void>;
  /** The threads of the pool are joined at exit: a sleeping one would block it forever. */
  readonly #onExit = (): void => this.#libbpf.signalEvent(this.#stop);
  #isClosed = false;

  constructor(libbpf: Libbpf, ringFd: number, onWake: () => void) {
    this.#libbpf = libbpf;
    this.#stop = libbpf.openEvent();
    this.#poll = libbpf.openPoll();
    // Edge-triggered: records that are already being read must not wake again.
    if (
      this.#stop < 0 ||
      this.#poll < 0 ||
      !libbpf.addToPoll(this.#poll, ringFd, true) ||
      !libbpf.addToPoll(this.#poll, this.#stop, false)
    ) {
      const errno = libbpf.errno();
      this.#close();
      throw new CoralError({ code: "unavailable", message: `Cannot wait for a ring buffer: errno ${errno}`, details: { errno } });
    }
    process.on("exit", this.#onExit);
    this.#waiting = this.#wait(onWake);
  }

  async #wait(onWake: () => void): Promise<void> {
    while (!this.#isClosed) {
      await this.#libbpf.waitForPoll(this.#poll);
      if (!this.#isClosed) onWake();
    }
  }

  #close(): void {
    for (const fd of [this.#poll, this.#stop]) if (fd >= 0) this.#libbpf.closeFd(fd);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return this.#waiting;
    this.#isClosed = true;
    process.off("exit", this.#onExit);
    this.#libbpf.signalEvent(this.#stop);
    await this.#waiting;
    this.#close();
  }
}
