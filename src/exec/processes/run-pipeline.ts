/** Programs joined by kernel pipes, as processes of this host. */

import { constants } from "node:os";
import type { Readable } from "node:stream";
import { background } from "../../base/background.ts";
import type { Logger } from "../../base/log.ts";
import { OutputMeter } from "./output-meter.ts";
import type { ProcessTree } from "./process-tree.ts";
import { type CommandBounds, type CommandEnd, type CommandOutput, type RunningCommand, signalOf } from "./running-command.ts";
import type { ProgramExit, SpawnedPrograms } from "./spawner.ts";

export interface PipelineOptions {
  spawned: SpawnedPrograms;
  tree: ProcessTree;
  bounds: CommandBounds;
  /** Per program: when SIGINT is sent, which counts as a normal exit. */
  interruptMs?: readonly (number | undefined)[];
  /** The launched process only waits for the program, which is its child. True if a pid namespace is entered. */
  isWrapped: boolean;
  log: Logger;
}

/** Between SIGTERM and SIGKILL. */
const graceMs = 2_000;

/** Reads the output of started programs, enforces limits and ends them. */
export function runPipeline(options: PipelineOptions): RunningCommand {
  return new Pipeline(options);
}

/** Ends when all programs have exited. Its exit code is that of the last one, as in a shell without `pipefail`. */
class Pipeline implements RunningCommand {
  readonly ended: Promise<CommandEnd>;
  readonly #options: PipelineOptions;
  readonly #spawned: SpawnedPrograms;
  readonly #meter: OutputMeter;
  readonly #startedMs = performance.now();
  readonly #timers: NodeJS.Timeout[] = [];
  #reason: CommandEnd["reason"] | undefined;
  #isGone = false;

  constructor(options: PipelineOptions) {
    const { spawned } = options;
    this.#options = options;
    this.#spawned = spawned;
    this.#meter = new OutputMeter(options.bounds.maxOutputBytes, () => this.stop("output-limit"));
    for (const { pid } of spawned.programs) options.tree.add(pid);
    const outputs = [this.#read("stdout", spawned.stdout), ...spawned.programs.map(({ stderr }) => this.#read("stderr", stderr))];
    this.#watchTime();
    this.ended = this.#finish(
      spawned.programs.map(({ exited }) => exited),
      outputs,
    );
  }

  get pid(): number {
    return this.#spawned.programs[0]?.pid ?? 0;
  }

  output(): AsyncIterable<CommandOutput> {
    return this.#meter;
  }

  drain(): void {
    this.#meter.drain();
  }

  async write(data: Uint8Array): Promise<void> {
    const input = this.#spawned.stdin;
    if (!input.writable || input.write(data)) return;
    await new Promise<void>((resolve) => {
      const go = (): void => {
        input.off("drain", go).off("close", go);
        resolve();
      };
      input.once("drain", go).once("close", go);
    });
  }

  endInput(): void {
    this.#spawned.stdin.end();
  }

  resize(): void {}

  signal(name: string): void {
    const signal = signalOf(name);
    if (signal !== undefined) this.#options.tree.signal(signal, this.#wrappers());
  }

  stop(reason: CommandEnd["reason"]): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    // Skip SIGTERM after an output-limit kill: the process would keep writing.
    if (reason !== "output-limit") this.#options.tree.signal("SIGTERM", this.#wrappers());
    const kill = (): void => background(this.#options.log, "Killing the processes of a command", this.#options.tree.kill());
    if (reason === "output-limit") kill();
    // A caller that disconnects while the end is being recorded must not block the agent: forked processes are already killed.
    else if (!this.#isGone) this.#timers.push(setTimeout(kill, graceMs));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop("cancelled");
    this.#meter.drain();
    await this.ended;
  }

  #wrappers(): ReadonlySet<number> {
    return new Set(this.#options.isWrapped ? this.#spawned.programs.map(({ pid }) => pid) : []);
  }

  async #read(stream: CommandOutput["stream"], source: Readable): Promise<void> {
    try {
      for await (const data of source as AsyncIterable<Buffer>) if (!(await this.#meter.take(stream, data))) break;
    } catch {
      // The stream was closed because the command was ended.
    }
    source.destroy();
  }

  #watchTime(): void {
    const { bounds, interruptMs = [], isWrapped, tree } = this.#options;
    if (bounds.timeoutMs !== undefined) this.#timers.push(setTimeout(() => this.stop("timeout"), bounds.timeoutMs));
    for (const [index, delayMs] of interruptMs.entries()) {
      const pid = this.#spawned.programs[index]?.pid;
      if (delayMs === undefined || pid === undefined) continue;
      // The other programs continue, to process its last output.
      this.#timers.push(setTimeout(() => (isWrapped ? this.signal("INT") : tree.signalOne(pid, "SIGINT")), delayMs));
    }
  }

  async #finish(exits: readonly Promise<ProgramExit>[], outputs: readonly Promise<void>[]): Promise<CommandEnd> {
    const ends = await Promise.all(exits);
    this.#isGone = true;
    for (const timer of this.#timers) clearTimeout(timer);
    // Daemonized processes end with the command; they also keep its output open.
    await this.#options.tree.kill();
    this.#spawned.stdin.destroy();
    await Promise.all(outputs);
    this.#meter.end();
    const { code, signal } = ends.at(-1) ?? { code: null, signal: null };
    return {
      ...endOf(this.#reason, code, signal),
      problem: "",
      stdoutBytes: this.#meter.stdoutBytes,
      stderrBytes: this.#meter.stderrBytes,
      durationMs: Math.round(performance.now() - this.#startedMs),
    };
  }
}

/** The reason for ending the command takes precedence over its last program's exit status. */
export function endOf(
  reason: CommandEnd["reason"] | undefined,
  code: number | null,
  signal: string | null,
): Pick<CommandEnd, "reason" | "exitCode" | "signal"> {
  const number = signal === null ? 0 : ((constants.signals as Readonly<Record<string, number>>)[signal] ?? 0);
  const exitCode = reason === "timeout" ? 124 : signal === null ? (code ?? 1) : 128 + number;
  return { reason: reason ?? (signal === null ? "exited" : "signalled"), exitCode, signal: signal ?? "" };
}
