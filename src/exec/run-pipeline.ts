/** Programs joined by pipes of the kernel, as processes of this host. */

import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import type { Readable } from "node:stream";
import { background } from "../base/background.ts";
import type { Logger } from "../base/log.ts";
import { OutputMeter } from "./output-meter.ts";
import type { ProcessTree } from "./process-tree.ts";
import { type CommandBounds, type CommandEnd, type CommandOutput, type RunningCommand, signalOf } from "./running-command.ts";

export interface PipelineOptions {
  /** For each program: the file to run and its arguments, see launchWords. */
  programs: readonly (readonly [string, ...string[]])[];
  environment: Readonly<Record<string, string>>;
  tree: ProcessTree;
  bounds: CommandBounds;
  /** The launched process waits for another one that is the program: so it is when a pid namespace is entered. */
  isWrapped: boolean;
  log: Logger;
}

/** Between being asked to end and being ended. */
const graceMs = 2_000;

/** Throws when a program could not be started; then none runs. */
export function runPipeline(options: PipelineOptions): RunningCommand {
  return new Pipeline(options);
}

class Pipeline implements RunningCommand {
  readonly ended: Promise<CommandEnd>;
  readonly #options: PipelineOptions;
  readonly #children: ChildProcess[] = [];
  readonly #meter: OutputMeter;
  readonly #startedMs = performance.now();
  readonly #timers: NodeJS.Timeout[] = [];
  #reason: CommandEnd["reason"] | undefined;
  #problem = "";

  constructor(options: PipelineOptions) {
    this.#options = options;
    this.#meter = new OutputMeter(options.bounds.maxOutputBytes, () => this.stop("output-limit"));
    const exits = options.programs.map((words, index) => this.#start(words, index));
    const outputs = this.#children.flatMap((child, index) => [
      ...(index === this.#children.length - 1 && child.stdout ? [this.#read("stdout", child.stdout)] : []),
      ...(child.stderr ? [this.#read("stderr", child.stderr)] : []),
    ]);
    // The reader of a pipe that nobody writes to any more must see its end.
    for (const child of this.#children.slice(0, -1)) child.stdout?.destroy();
    this.#children[0]?.stdin?.on("error", () => undefined);
    this.#watchTime();
    this.ended = this.#finish(exits, outputs);
  }

  get pid(): number {
    return this.#children[0]?.pid ?? 0;
  }

  output(): AsyncIterable<CommandOutput> {
    return this.#meter;
  }

  drain(): void {
    this.#meter.drain();
  }

  async write(data: Uint8Array): Promise<void> {
    const input = this.#children[0]?.stdin;
    if (!input?.writable || input.write(data)) return;
    await new Promise<void>((resolve) => {
      input.once("drain", resolve);
      input.once("close", resolve);
    });
  }

  endInput(): void {
    this.#children[0]?.stdin?.end();
  }

  resize(): void {}

  signal(name: string): void {
    const signal = signalOf(name);
    if (signal !== undefined) this.#options.tree.signal(signal, this.#wrappers());
  }

  stop(reason: CommandEnd["reason"]): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    // Whoever wrote too much is not asked: it would go on writing.
    if (reason !== "output-limit") this.#options.tree.signal("SIGTERM", this.#wrappers());
    const kill = (): void => background(this.#options.log, "The end of a command", this.#options.tree.kill());
    if (reason === "output-limit") kill();
    else this.#timers.push(setTimeout(kill, graceMs));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop("cancelled");
    this.#meter.drain();
    await this.ended;
  }

  #wrappers(): ReadonlySet<number> {
    return new Set(this.#options.isWrapped ? this.#children.flatMap(({ pid }) => pid ?? []) : []);
  }

  /** Resolves with its end; 127 when it could not be started. */
  #start(words: readonly [string, ...string[]], index: number): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    const [file, ...args] = words;
    const before = this.#children[index - 1];
    const child = spawn(file, args, {
      // The stream before is handed over, not copied: no byte between two programs goes through this process.
      stdio: [before?.stdout ?? "pipe", "pipe", "pipe"],
      env: this.#options.environment,
      cwd: "/",
      detached: true,
    });
    this.#children.push(child);
    if (child.pid !== undefined) this.#options.tree.add(child.pid);
    return new Promise((resolve) => {
      child.once("error", (error) => {
        if (child.pid !== undefined) return;
        this.#problem = `Cannot start a command: ${error.message}`;
        resolve({ code: 127, signal: null });
      });
      child.once("exit", (code, signal) => resolve({ code, signal }));
    });
  }

  async #read(stream: CommandOutput["stream"], source: Readable): Promise<void> {
    try {
      for await (const data of source as AsyncIterable<Buffer>) if (!(await this.#meter.take(stream, data))) break;
    } catch {
      // The stream was closed under it because the command was ended.
    }
    source.destroy();
  }

  #watchTime(): void {
    const { timeoutMs, stopAfterMs } = this.#options.bounds;
    if (timeoutMs !== undefined) this.#timers.push(setTimeout(() => this.stop("timeout"), timeoutMs));
    if (stopAfterMs !== undefined) this.#timers.push(setTimeout(() => this.signal("INT"), stopAfterMs));
  }

  async #finish(
    exits: readonly Promise<{ code: number | null; signal: NodeJS.Signals | null }>[],
    outputs: readonly Promise<void>[],
  ): Promise<CommandEnd> {
    const ends = await Promise.all(exits);
    for (const timer of this.#timers) clearTimeout(timer);
    // What forked away goes with the command; it also holds its output open.
    await this.#options.tree.kill();
    await Promise.all(outputs);
    this.#meter.end();
    const { code, signal } = ends.at(-1) ?? { code: null, signal: null };
    return {
      ...endOf(this.#problem === "" ? this.#reason : "failed", code, signal),
      problem: this.#problem,
      stdoutBytes: this.#meter.stdoutBytes,
      stderrBytes: this.#meter.stderrBytes,
      durationMs: Math.round(performance.now() - this.#startedMs),
    };
  }
}

/** What the command was ended for counts more than how its last program took it. */
export function endOf(
  reason: CommandEnd["reason"] | undefined,
  code: number | null,
  signal: string | null,
): Pick<CommandEnd, "reason" | "exitCode" | "signal"> {
  const number = signal === null ? 0 : ((constants.signals as Readonly<Record<string, number>>)[signal] ?? 0);
  const exitCode = reason === "timeout" ? 124 : signal === null ? (code ?? 1) : 128 + number;
  return { reason: reason ?? (signal === null ? "exited" : "signalled"), exitCode, signal: signal ?? "" };
}
