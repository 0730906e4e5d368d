/** Starts the real `bin/coral` in a temporary CORAL_HOME, and stops the processes that it started. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { root } from "./report.ts";

export const coralFile = join(root, "bin/coral");

/** A CORAL_HOME that is deleted with the scope, unless its path was given. */
export class CoralHome implements Disposable {
  readonly path: string;
  readonly env: NodeJS.ProcessEnv;
  readonly #isKept: boolean;

  constructor(keptPath?: string) {
    this.#isKept = keptPath !== undefined;
    this.path = keptPath ?? mkdtempSync(join(tmpdir(), "coral-bench-"));
    if (keptPath !== undefined) mkdirSync(keptPath, { recursive: true });
    // Drops the caller's Coral variables; bin/coral finds this Node first.
    this.env = {
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CORAL_") && name !== "NODE_OPTIONS")),
      CORAL_HOME: this.path,
      PATH: `${dirname(process.execPath)}${delimiter}${process.env["PATH"] ?? ""}`,
    };
  }

  /** Runs a command and returns its stdout; throws with its stderr if it fails. */
  run(...args: string[]): string {
    const { status, stdout, stderr } = spawnSync(coralFile, args, { env: this.env, encoding: "utf8" });
    if (status !== 0) throw new Error(`coral ${args.join(" ")} exited with ${status}: ${stderr}`);
    return stdout;
  }

  /** Starts a daemon in the foreground of a child process; resolves when `ready` no longer throws. */
  async start(args: readonly string[], ready: () => void): Promise<CoralDaemon> {
    const child = spawn(process.execPath, [...nodeFlags, coralFile, ...args], { env: this.env, stdio: ["ignore", "ignore", "pipe"] });
    const daemon = new CoralDaemon(child, args.join(" "));
    try {
      await until(`coral ${args.join(" ")} answers`, 30_000, () => {
        daemon.check();
        ready();
      });
      return daemon;
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  [Symbol.dispose](): void {
    if (!this.#isKept) rmSync(this.path, { recursive: true, force: true });
  }
}

/** A daemon as a child process, from the built program. Disposing it stops it and waits for its exit. */
export class CoralDaemon implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #what: string;
  /** The last lines of output, for an unexpected exit. */
  #output = "";

  constructor(child: ChildProcess, what: string) {
    this.#child = child;
    this.#what = what;
    child.stderr?.on("data", (text: Buffer) => {
      this.#output = `${this.#output}${text.toString()}`.slice(-4_000);
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Throws if it has exited. */
  check(): void {
    if (this.#child.exitCode === null && this.#child.signalCode === null) return;
    throw new DaemonEnded(`coral ${this.#what} has exited: ${this.#output}`);
  }

  get output(): string {
    return this.#output;
  }

  /** Sends SIGTERM, then SIGKILL after 30 s. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 30_000);
    await ended;
    clearTimeout(timer);
  }
}

/** The daemon exited while it was still needed. The message has the end of its output. */
class DaemonEnded extends Error {}

/** For profiling: `CORAL_BENCH_NODE_FLAGS="--cpu-prof --cpu-prof-dir=/tmp/profiles"` applies to every daemon. */
const nodeFlags: readonly string[] = (process.env["CORAL_BENCH_NODE_FLAGS"] ?? "").split(" ").filter((flag) => flag !== "");

/** Polls until `check` does not throw; fails at once if a daemon has exited. */
export async function until(what: string, timeoutMs: number, check: () => void | Promise<void>): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (error instanceof DaemonEnded || performance.now() > deadlineMs) {
        throw new Error(`Timed out waiting until ${what}`, { cause: error });
      }
      await sleep(100);
    }
  }
}
