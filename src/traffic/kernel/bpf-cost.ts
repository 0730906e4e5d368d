/**
 * Measures the cost of the BPF programs. The kernel measures only on request, and then reads the clock twice per run of every BPF program of the host;
 * so it measures a part of each window, and the result is scaled to the whole.
 */

export interface CountedPrograms {
  stats(): { runNs: bigint; runs: bigint }[];
  /** Null if the kernel refuses. */
  enableStats(): Disposable | null;
}

export interface BpfCost {
  /** Scaled to the time since the last call; null if nothing was measured. */
  ns: number | null;
  runs: number | null;
}

/** Measures from `begin` to `end`, once or more in a window. Times are CLOCK_MONOTONIC in milliseconds. */
export class BpfCostMeter {
  readonly #programs: CountedPrograms;
  #sample: { sinceMs: number; runNs: bigint; runs: bigint; counting: Disposable } | undefined;
  #measured = { ms: 0, runNs: 0, runs: 0 };
  #isRefused = false;

  constructor(programs: CountedPrograms) {
    this.#programs = programs;
  }

  /** Does nothing during a sample, or once the kernel has refused. */
  begin(nowMs: number): void {
    if (this.#sample !== undefined || this.#isRefused) return;
    const counting = this.#programs.enableStats();
    if (counting === null) {
      this.#isRefused = true;
      return;
    }
    this.#sample = { sinceMs: nowMs, ...this.#totals(), counting };
  }

  end(nowMs: number): void {
    const sample = this.#sample;
    if (sample === undefined) return;
    const { runNs, runs } = this.#totals();
    sample.counting[Symbol.dispose]();
    this.#sample = undefined;
    this.#measured.ms += nowMs - sample.sinceMs;
    this.#measured.runNs += Number(runNs - sample.runNs);
    this.#measured.runs += Number(runs - sample.runs);
  }

  /** Returns the cost of a window of that length, estimated from its samples, and resets them. */
  take(windowMs: number): BpfCost {
    const { ms, runNs, runs } = this.#measured;
    this.#measured = { ms: 0, runNs: 0, runs: 0 };
    if (ms <= 0) return { ns: null, runs: null };
    const scale = windowMs / ms;
    return { ns: Math.round(runNs * scale), runs: Math.round(runs * scale) };
  }

  #totals(): { runNs: bigint; runs: bigint } {
    let runNs = 0n;
    let runs = 0n;
    for (const program of this.#programs.stats()) {
      runNs += program.runNs;
      runs += program.runs;
    }
    return { runNs, runs };
  }
}
