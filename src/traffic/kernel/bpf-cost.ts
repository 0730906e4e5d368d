/**
 * What the programs in the kernel cost. The kernel measures them only while asked to, and reads the clock twice a run then, for every BPF program of the
 * host; so it is asked for a part of each window, and the figure is scaled to the whole.
 */

export interface CountedPrograms {
  stats(): { runNs: bigint; runs: bigint }[];
  /** Null where the kernel refuses. */
  enableStats(): Disposable | null;
}

export interface BpfCost {
  /** Scaled to the time since the last call; null when nothing was measured in it. */
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

  /** Does nothing while a sample is being taken, or once the kernel has refused. */
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

  /** What a window of that length cost, as far as it was sampled; begins anew. */
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
