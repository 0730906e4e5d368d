/** Tells the traffic process when a scan begins and ends, and waits for its answer: what it reported before the answer is what happened before. */
export class ScanMarks {
  readonly #send: (phase: "begin" | "end", mark: number) => boolean;
  readonly #timeoutMs: number;
  #last = 0;
  #waiting: { mark: number; resolve: (isAnswered: boolean) => void } | undefined;

  /** `send` returns false when there is no process to tell it to. */
  constructor(send: (phase: "begin" | "end", mark: number) => boolean, timeoutMs: number) {
    this.#send = send;
    this.#timeoutMs = timeoutMs;
  }

  /** False when the answer does not come in time, or nobody can give one. One at a time. */
  async set(phase: "begin" | "end", signal?: AbortSignal): Promise<boolean> {
    const mark = ++this.#last;
    const giveUp = (): void => this.giveUp();
    const timer = setTimeout(giveUp, this.#timeoutMs);
    signal?.addEventListener("abort", giveUp, { once: true });
    try {
      return await new Promise<boolean>((resolve) => {
        this.#waiting = { mark, resolve };
        if (!this.#send(phase, mark)) resolve(false);
      });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", giveUp);
      this.#waiting = undefined;
    }
  }

  answer(mark: number): void {
    if (mark === this.#waiting?.mark) this.#waiting.resolve(true);
  }

  /** No answer is to be expected any more. */
  giveUp(): void {
    this.#waiting?.resolve(false);
  }
}
