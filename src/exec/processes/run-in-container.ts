/** Programs started by a container runtime, for containers that this agent cannot enter. They run as the container's user, with its confinement. */

import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { ContainerDirectory, ContainerExec, ContainerInfo } from "../../host/index.ts";
import type { Stage } from "../policy/parse-command.ts";
import { OutputMeter } from "./output-meter.ts";
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

/** Runtimes cannot close a program's input. So input is read ahead, up to this time and size, to determine whether and where it ends. */
const inputWaitMs = 300;
/** Input above this is passed on without waiting for its end. */
const maxHeldBytes = 4 * 1024 * 1024;

/** The input that was read ahead when the program starts. */
type KnownInput = { kind: "none" } | { kind: "whole"; data: Buffer } | { kind: "open"; data: Buffer };

/**
 * A single program is passed unchanged. A pipeline, or a program whose input must end, runs through the container's shell. The shell never parses the
 * command: its script refers to argv as positional parameters.
 */
export function containerArgv(programs: ContainerRunOptions["programs"], inputBytes: number | undefined): string[] {
  const [only] = programs;
  const isPlain = inputBytes === undefined && programs.length === 1 && only && !isRedirected(only.stage);
  if (isPlain) return [...only.argv];
  let number = 0;
  const parts = programs.map(({ argv, stage }) => argv.map(() => `"\${${++number}}"`).join(" ") + redirectionsOf(stage));
  const script = [...(inputBytes === undefined ? [] : [`head -c ${Math.trunc(inputBytes)}`]), ...parts].join(" | ");
  return ["/bin/sh", "-c", script, "coral", ...programs.flatMap(({ argv }) => argv)];
}

function isRedirected({ dropStdout, dropStderr, stderrToStdout }: Stage): boolean {
  return dropStdout || dropStderr || stderrToStdout;
}

function redirectionsOf({ dropStdout, dropStderr, stderrToStdout }: Stage): string {
  return `${stderrToStdout ? " 2>&1" : dropStderr ? " 2>/dev/null" : ""}${dropStdout ? " >/dev/null" : ""}`;
}

/** Returns at once; a failure to start is reported by `ended`. */
export function runInContainer(options: ContainerRunOptions): RunningCommand {
  return new ContainerRun(options);
}

/** Its processes belong to the runtime: it has no pid here, and it is ended through the runtime. */
class ContainerRun implements RunningCommand {
  readonly pid = 0;
  readonly ended: Promise<CommandEnd>;
  readonly #options: ContainerRunOptions;
  readonly #stopped = new AbortController();
  readonly #meter: OutputMeter;
  readonly #startedMs = performance.now();
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #held: Buffer[] = [];
  #heldBytes = 0;
  #isInputOver = false;
  #knowInput: () => void = () => undefined;
  #exec: ContainerExec | undefined;
  #size: { columns: number; rows: number } | undefined;
  #reason: CommandEnd["reason"] | undefined;
  #problem = "";

  constructor(options: ContainerRunOptions) {
    this.#options = options;
    const { bounds } = options;
    this.#meter = new OutputMeter(bounds.maxOutputBytes, () => this.stop("output-limit"));
    if (bounds.timeoutMs !== undefined) this.#timers.push(setTimeout(() => this.stop("timeout"), bounds.timeoutMs));
    if (bounds.stopAfterMs !== undefined) this.#timers.push(setTimeout(() => this.stop("cancelled"), bounds.stopAfterMs));
    this.ended = this.#run();
  }

  output(): AsyncIterable<CommandOutput> {
    return this.#meter;
  }

  drain(): void {
    this.#meter.drain();
  }

  async write(data: Uint8Array): Promise<void> {
    if (this.#exec) {
      if (!this.#exec.write(data)) await this.#exec.drained();
      return;
    }
    this.#held.push(Buffer.from(data));
    this.#heldBytes += data.byteLength;
    if (this.#heldBytes > maxHeldBytes) this.#knowInput();
  }

  endInput(): void {
    this.#isInputOver = true;
    this.#exec?.endInput();
    this.#knowInput();
  }

  resize(columns: number, rows: number): void {
    this.#size = { columns, rows };
    this.#exec?.resize(columns, rows);
  }

  /** The runtime forwards no signals. At a terminal the control character has the same effect; otherwise the program can only be killed. */
  signal(name: string): void {
    const short = name.toUpperCase().replace(/^SIG/, "");
    if (["INT", "TERM", "KILL", "HUP", "QUIT"].includes(short)) this.stop("cancelled");
  }

  stop(reason: CommandEnd["reason"]): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#stopped.abort();
    this.#knowInput();
    void this.#exec?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop("cancelled");
    this.#meter.drain();
    await this.ended;
  }

  async #input(): Promise<KnownInput> {
    if (!this.#isInputOver && this.#options.terminal === undefined) {
      const known = new Promise<void>((resolve) => {
        this.#knowInput = resolve;
      });
      await Promise.race([known, sleep(inputWaitMs)]);
    }
    const data = Buffer.concat(this.#held.splice(0));
    if (!this.#isInputOver) return { kind: "open", data };
    return data.length === 0 && this.#options.terminal === undefined ? { kind: "none" } : { kind: "whole", data };
  }

  async #run(): Promise<CommandEnd> {
    const code = await this.#runProgram().catch((error: unknown) => {
      if (this.#reason === undefined) this.#problem = CoralError.from(error).message;
      return 137;
    });
    for (const timer of this.#timers) clearTimeout(timer);
    this.#meter.end();
    return {
      ...endOf(this.#problem === "" ? this.#reason : "failed", code, null),
      problem: this.#problem,
      stdoutBytes: this.#meter.stdoutBytes,
      stderrBytes: this.#meter.stderrBytes,
      durationMs: Math.round(performance.now() - this.#startedMs),
    };
  }

  async #runProgram(): Promise<number> {
    const { containers, container, programs, terminal } = this.#options;
    const input = await this.#input();
    this.#stopped.signal.throwIfAborted();
    const isCounted = input.kind === "whole" && terminal === undefined;
    await using exec = await containers.exec(container, {
      argv: containerArgv(programs, isCounted ? input.data.length : undefined),
      hasInput: input.kind !== "none",
      signal: this.#stopped.signal,
      ...(terminal ? { terminal: this.#size ?? { columns: terminal.columns, rows: terminal.rows } } : {}),
    });
    this.#exec = exec;
    if (input.kind !== "none" && input.data.length > 0 && !exec.write(input.data)) await exec.drained();
    if (this.#isInputOver) exec.endInput();
    for await (const { stream, data } of exec.output()) if (!(await this.#meter.take(stream, data))) break;
    return await exec.exitCode;
  }
}
