/** Reads samples, closes windows, and keeps the cost within its budget. */

import type { Logger } from "../base/log.ts";
import { openProcessMemory } from "../bpf/index.ts";
import { createCodeReader, type KernelFunctions, readKernelFunctions } from "../host/index.ts";
import { initialLadder, type LadderState, ladderSteps, nextStep } from "./core/budget-ladder.ts";
import type { ProfileLoss, ProfileReport, ProfileSettings } from "./core/messages.ts";
import type { CpuSampler } from "./kernel/cpu-sampler.ts";
import { createSampleReader } from "./kernel/sample-record.ts";
import { FileCache, ProcessCodes } from "./stacks/process-code.ts";
import { StackWindow } from "./stacks/stack-window.ts";

export interface ProfileRuntimeOptions {
  sampler: CpuSampler;
  settings: ProfileSettings;
  report: (report: ProfileReport) => void;
  log: Logger;
}

/** Interval between reads of the ring. Mappings of new processes are read then, so the stacks of short-lived ones often stay unnamed. */
const pollMs = 500;
/**
 * Longest drain before other work runs: windows must close even if samples arrive faster than they are walked. The ring counts what it
 * drops meanwhile.
 */
const drainMs = 100;
/** Share of a window in which the kernel measures BPF programs. */
const measuredShare = 0.1;
/** Kernel modules come and go, so their names are read again after this time. */
const kernelNamesMs = 3_600_000;
const maxLoggedFailures = 10;

export class ProfileRuntime implements AsyncDisposable {
  readonly #options: ProfileRuntimeOptions;
  readonly #files: FileCache;
  readonly #window: StackWindow;
  readonly #read = createSampleReader();
  #settings: ProfileSettings;
  #timer: NodeJS.Timeout | undefined;
  #ladder: LadderState = initialLadder();
  #windowFromMs = performance.now();
  #cpuMicros = cpuMicros();
  #measuring: { counting: Disposable; fromMs: number; runNs: bigint } | undefined;
  #kernel: { functions: KernelFunctions | null; readMs: number } | undefined;
  #failures = 0;
  #undecoded = 0;
  #isClosed = false;
  /** Serialises rate changes. */
  #changing: Promise<void> = Promise.resolve();

  constructor(options: ProfileRuntimeOptions) {
    this.#options = options;
    this.#settings = options.settings;
    const reader = createCodeReader();
    this.#files = new FileCache(reader);
    this.#window = new StackWindow({
      codes: new ProcessCodes(reader, this.#files, openProcessMemory(), options.sampler.runtimes),
      kernelFunctions: () => this.#kernelFunctions(),
      maxStacks: options.settings.maxStacks,
      nowMs: () => performance.now(),
    });
  }

  /** Throws if the kernel rejects the first perf events. */
  async start(): Promise<void> {
    await this.#options.sampler.setRate(this.#hz());
    this.#options.sampler.onFilling(() => this.#drain());
    this.#reportState();
    this.#timer = setInterval(() => this.#turn(), pollMs);
  }

  #hz(): number {
    const part = ladderSteps[this.#ladder.step] ?? 0;
    return part === 0 ? 0 : Math.max(1, Math.round(this.#settings.hz * part));
  }

  #turn(): void {
    this.#drain();
    const nowMs = performance.now();
    const { windowMs } = this.#settings;
    if (nowMs - this.#windowFromMs >= windowMs) this.#closeWindow(nowMs);
    else if (nowMs - this.#windowFromMs >= windowMs * (1 - measuredShare) && this.#measuring === undefined) this.#beginMeasure(nowMs);
  }

  #drain(): void {
    if (this.#isClosed) return;
    this.#options.sampler.drain((view, offset, length, bytes) => {
      try {
        const sample = this.#read(view, offset, length, bytes);
        if (sample !== null) this.#window.add(sample);
      } catch (error) {
        // Untrusted files and stacks must not crash the process: the sample is dropped and counted.
        this.#failed("walking a stack", error);
      }
    }, drainMs);
  }

  #closeWindow(nowMs: number): void {
    const { report, sampler } = this.#options;
    const hz = this.#hz();
    const windowMs = nowMs - this.#windowFromMs;
    const { frames, stacks, full } = this.#take();
    const losses: [ProfileLoss, number][] = [
      ["ring-full", sampler.takeDropped()],
      ["stacks-full", full + this.#undecoded],
      ["paused-seconds", hz === 0 ? Math.round(windowMs / 1_000) : 0],
    ];
    this.#undecoded = 0;
    const cpu = cpuMicros();
    const cpuNs = (cpu - this.#cpuMicros) * 1_000;
    const bpfNs = this.#takeMeasured(nowMs, windowMs);
    this.#cpuMicros = cpu;
    this.#windowFromMs = nowMs;
    report({
      kind: "window",
      windowMs,
      periodUs: hz === 0 ? 0 : Math.round(1e6 / hz),
      frames,
      stacks,
      losses: losses.flatMap(([loss, count]) => (count > 0 ? [{ loss, count }] : [])),
      cost: { bpfNs, cpuNs, rssBytes: process.memoryUsage.rss() },
    });
    this.#step((cpuNs + (bpfNs ?? 0)) / 1e6, windowMs);
  }

  #take(): ReturnType<StackWindow["take"]> {
    try {
      return this.#window.take();
    } catch (error) {
      this.#failed("naming functions", error);
      return { frames: [], stacks: [], full: 0 };
    }
  }

  #step(spentMs: number, windowMs: number): void {
    const before = this.#ladder.step;
    this.#ladder = nextStep(this.#ladder, spentMs, windowMs, this.#settings.cpuBudget);
    if (this.#ladder.step === before) return;
    this.#changing = this.#changing.then(async () => {
      await this.#options.sampler.setRate(this.#hz());
      this.#reportState();
    });
    this.#changing.catch((error: unknown) => this.#failed("changing the rate", error));
  }

  #beginMeasure(nowMs: number): void {
    const counting = this.#options.sampler.measure();
    if (counting !== null) this.#measuring = { counting, fromMs: nowMs, runNs: this.#options.sampler.runNs() };
  }

  /** Scaled from the measured part to the whole window. */
  #takeMeasured(nowMs: number, windowMs: number): number | null {
    const measuring = this.#measuring;
    if (measuring === undefined) return null;
    this.#measuring = undefined;
    const ns = Number(this.#options.sampler.runNs() - measuring.runNs);
    measuring.counting[Symbol.dispose]();
    return Math.round((ns * windowMs) / Math.max(1, nowMs - measuring.fromMs));
  }

  #kernelFunctions(): KernelFunctions | null {
    const nowMs = performance.now();
    if (this.#kernel === undefined || nowMs - this.#kernel.readMs > kernelNamesMs) {
      this.#kernel = { functions: readKernelFunctions(), readMs: nowMs };
    }
    return this.#kernel.functions;
  }

  #reportState(): void {
    const hz = this.#hz();
    this.#options.report({ kind: "state", state: hz === 0 ? "paused" : "on", problem: null, hz });
  }

  #failed(what: string, error: unknown): void {
    this.#undecoded++;
    if (this.#failures++ >= maxLoggedFailures) return;
    this.#options.log.error(`${what} failed; counting the samples as lost`, { error, stack: error instanceof Error ? error.stack : "" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#changing.catch(() => undefined); // was logged
    this.#measuring?.counting[Symbol.dispose]();
    this.#files[Symbol.dispose]();
  }
}

function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
