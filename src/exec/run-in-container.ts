/** Programs that a container runtime starts, where this agent cannot enter the container itself. They run as the container's own user, confined as it is. */

import type { ContainerDirectory, ContainerExec, ContainerInfo } from "../host/index.ts";
import { OutputMeter } from "./output-meter.ts";
import type { Stage } from "./parse-command.ts";
import { endOf } from "./run-pipeline.ts";
import type { TerminalShape } from "./run-terminal.ts";
import type { CommandBounds, CommandEnd, CommandOutput, RunningCommand } from "./running-command.ts";

export interface ContainerRunOptions {
  containers: ContainerDirectory;
  container: ContainerInfo;
  programs: readonly { argv: readonly string[]; stage: Stage }[];
  terminal: TerminalShape | undefined;
  bounds: CommandBounds;
}

export async function runInContainer(options: ContainerRunOptions): Promise<RunningCommand> {
  const { containers, container, programs, terminal } = options;
  const stopped = new AbortController();
  const started: ContainerExec[] = [];
  try {
    for (const { argv } of programs) {
      started.push(
        await containers.exec(container, {
          argv,
          hasInput: true,
          signal: stopped.signal,
          ...(terminal ? { terminal: { columns: terminal.columns, rows: terminal.rows } } : {}),
        }),
      );
    }
  } catch (error) {
    stopped.abort();
    await Promise.allSettled(started.map((exec) => exec[Symbol.asyncDispose]()));
    throw error;
  }
  return new ContainerRun(options, started, stopped);
}

class ContainerRun implements RunningCommand {
  readonly pid = 0;
  readonly ended: Promise<CommandEnd>;
  readonly #execs: readonly ContainerExec[];
  readonly #stopped: AbortController;
  readonly #meter: OutputMeter;
  readonly #startedMs = performance.now();
  readonly #timers: NodeJS.Timeout[] = [];
  #reason: CommandEnd["reason"] | undefined;

  constructor({ programs, bounds }: ContainerRunOptions, execs: readonly ContainerExec[], stopped: AbortController) {
    this.#execs = execs;
    this.#stopped = stopped;
    this.#meter = new OutputMeter(bounds.maxOutputBytes, () => this.stop("output-limit"));
    if (bounds.timeoutMs !== undefined) this.#timers.push(setTimeout(() => this.stop("timeout"), bounds.timeoutMs));
    if (bounds.stopAfterMs !== undefined) this.#timers.push(setTimeout(() => this.signal("INT"), bounds.stopAfterMs));
    const pumps = execs.map((exec, index) => this.#pump(exec, programs[index]?.stage, execs[index + 1]));
    this.ended = this.#finish(pumps);
  }

  output(): AsyncIterable<CommandOutput> {
    return this.#meter;
  }

  drain(): void {
    this.#meter.drain();
  }

  async write(data: Uint8Array): Promise<void> {
    const [first] = this.#execs;
    if (first && !first.write(data)) await first.drained();
  }

  endInput(): void {
    this.#execs[0]?.endInput();
  }

  resize(columns: number, rows: number): void {
    for (const exec of this.#execs) exec.resize(columns, rows);
  }

  /** The runtime passes no signals on. At a terminal the key does what the signal would; else to end it is all there is. */
  signal(name: string): void {
    const short = name.toUpperCase().replace(/^SIG/, "");
    if (["INT", "TERM", "KILL", "HUP", "QUIT"].includes(short)) this.stop("cancelled");
  }

  stop(reason: CommandEnd["reason"]): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#stopped.abort();
    for (const exec of this.#execs) void exec[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop("cancelled");
    this.#meter.drain();
    await this.ended;
  }

  async #pump(exec: ContainerExec, stage: Stage | undefined, next: ContainerExec | undefined): Promise<void> {
    try {
      for await (const { stream, data } of exec.output()) {
        const to = stream === "stderr" && stage?.stderrToStdout === true ? "stdout" : stream;
        if (to === "stdout" && stage?.dropStdout === true) continue;
        if (to === "stderr" && stage?.dropStderr === true) continue;
        if (to === "stdout" && next) {
          if (!next.write(data)) await next.drained();
        } else if (!(await this.#meter.take(to, data))) return;
      }
    } finally {
      next?.endInput();
    }
  }

  async #finish(pumps: readonly Promise<void>[]): Promise<CommandEnd> {
    const [, exits] = await Promise.all([Promise.allSettled(pumps), Promise.allSettled(this.#execs.map(({ exitCode }) => exitCode))]);
    for (const timer of this.#timers) clearTimeout(timer);
    this.#meter.end();
    const last = exits.at(-1);
    const lost =
      last?.status === "rejected" && this.#reason === undefined
        ? String(last.reason instanceof Error ? last.reason.message : last.reason)
        : "";
    const code = last?.status === "fulfilled" ? last.value : 137;
    return {
      ...endOf(lost === "" ? this.#reason : "failed", code, null),
      problem: lost,
      stdoutBytes: this.#meter.stdoutBytes,
      stderrBytes: this.#meter.stderrBytes,
      durationMs: Math.round(performance.now() - this.#startedMs),
    };
  }
}
