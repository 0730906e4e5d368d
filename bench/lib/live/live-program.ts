/** One real process of the live world. It can be killed, paused, restarted, and made to misbehave by a file that it reads. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../coral-process.ts";
import type { ControlGroup } from "./control-group.ts";

export interface ProgramStart {
  file: string;
  args: readonly string[];
  directory: string;
  env: NodeJS.ProcessEnv;
  user?: { uid: number; gid: number };
  /** What ends it at once with all its workers. Default: SIGKILL. */
  endSignal?: NodeJS.Signals;
}

/** Behaviour that a fault sets for a program. Routes are `POST /charge`. */
export interface Behaviour {
  routes?: Record<string, { errorRatio?: number; delayMs?: number; burnMs?: number; part?: number }>;
  /** Blocks its only thread for this long, five times a second. */
  blockMs?: number;
  /** Leaks this much memory, five times a second. */
  leakBytes?: number;
  leakConnections?: number;
  /** The relay, or the name server, delays each piece of a request or response by this time. */
  holdMs?: number;
  /** Exits this long after its start. */
  exitAfterMs?: number;
}

/** How long a program may take to end when it is asked to. */
const endMs = 5_000;

/** A program of the live world as a child process. Disposing it ends it. */
export class LiveProgram implements AsyncDisposable {
  readonly name: string;
  readonly port: number;
  readonly #start: ProgramStart;
  readonly #behaviourFile: string;
  readonly group: ControlGroup | null;
  #child: ChildProcess | undefined;
  #isEnding = false;
  /** Restarts the program when it exits, as a container runtime does. */
  isSupervised = false;

  constructor(name: string, port: number, start: ProgramStart, group: ControlGroup | null = null) {
    this.name = name;
    this.port = port;
    this.#start = start;
    this.#behaviourFile = `${start.directory}/behaviour.json`;
    this.group = group;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  get child(): ChildProcess | undefined {
    return this.#child;
  }

  async start(): Promise<this> {
    this.behave({});
    this.#spawn();
    if (this.port > 0) await until(`${this.name} listens`, 30_000, () => canConnect(this.port));
    return this;
  }

  #spawn(): void {
    this.#isEnding = false;
    const { file, args, directory, env, user } = this.#start;
    const child = spawn(file, args, { cwd: directory, env, ...user, stdio: ["pipe", "pipe", "ignore"] });
    this.#child = child;
    this.group?.add(child.pid ?? 0);
    child.on("error", () => undefined);
    child.stdin?.on("error", () => undefined);
    child.once("exit", () => {
      if (!this.#isEnding && this.isSupervised) setTimeout(() => !this.#isEnding && this.#spawn(), 1_000);
    });
  }

  /** Replaces the file atomically, so that the program never reads a part of it. */
  behave(behaviour: Behaviour): void {
    writeFileSync(`${this.#behaviourFile}.new`, JSON.stringify(behaviour));
    renameSync(`${this.#behaviourFile}.new`, this.#behaviourFile);
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  async stop(): Promise<void> {
    this.#isEnding = true;
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGCONT");
    child.kill(this.#start.endSignal ?? "SIGKILL");
    await ended;
    // A worker that outlives it would hold these open, and the benchmark with them.
    child.stdin?.destroy();
    child.stdout?.destroy();
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Asked first: of a server that is killed, workers stay behind. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true;
    const child = this.#child;
    if (child && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      child.kill("SIGCONT");
      child.kill("SIGTERM");
      await Promise.race([ended, sleep(endMs, undefined, { ref: false })]);
    }
    await this.stop();
    this.group?.[Symbol.dispose]();
  }
}

function canConnect(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve();
    });
    socket.once("error", reject);
  });
}
