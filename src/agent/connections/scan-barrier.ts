/**
 * Separates what the kernel reported before a scan's start or end from what it reported after. Sends a mark to the traffic process and
 * waits until the process returns it: every event before the mark has then arrived.
 */
export class ScanBarrier {
  readonly #send: (phase: "begin" | "end", mark: number) => boolean;
  readonly #timeoutMs: number;
  #last = 0;
  #pending: { mark: number; resolve: (isReached: boolean) => void } | undefined;

  /** `send` returns false when there is no traffic process. */
  constructor(send: (phase: "begin" | "end", mark: number) => boolean, timeoutMs: number) {
    this.#send = send;
    this.#timeoutMs = timeoutMs;
  }

  /** False on timeout, on abort, and without a traffic process. One at a time. */
  async reach(phase: "begin" | "end", signal?: AbortSignal): Promise<boolean> {
    const mark = ++this.#last;
    const cancel = (): void => this.cancel();
    const timer = setTimeout(cancel, this.#timeoutMs);
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      return await new Promise<boolean>((resolve) => {
        this.#pending = { mark, resolve };
        if (!this.#send(phase, mark)) resolve(false);
      });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
      this.#pending = undefined;
    }
  }

  /** Call when the traffic process has returned a mark. */
  acknowledge(mark: number): void {
    if (mark === this.#pending?.mark) this.#pending.resolve(true);
  }

  /** Fails a pending `reach` at once. */
  cancel(): void {
    this.#pending?.resolve(false);
  }
}
