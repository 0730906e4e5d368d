/**
 * Owns the processes that parse and run users' SQL. They start on demand and run one statement at a time. They are killed when a statement
 * exceeds its time limit, and after a minute of idling.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CoralError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import { Semaphore } from "../../../base/semaphore.ts";
import { giveToFolderOwner } from "../../segments/segment-files.ts";
import { endedError } from "../explain-failure.ts";
import type { SqlAnswer, SqlOrder, SqlOrderResults, SqlProcessSettings } from "./sql-orders.ts";

export interface SqlProcessesOptions extends Omit<SqlProcessSettings, "tempDirectory"> {
  /** Each process gets a directory in it. It must be inside the data directories. */
  scratchDirectory: string;
  /** Whether large sorts and groups may spill to that directory; otherwise they fail as `exhausted`. */
  maySpill: boolean;
  /** The bundled program. Default: next to the daemon's. */
  file?: string;
  log: Logger;
}

/** Two, so that one long statement does not block all others. */
const maxProcesses = 2;
const maxWaiting = 16;
const idleMs = 60_000;
/** A start takes 0.1 s, on a busy host seconds. */
const startTimeoutMs = 30_000;
/** The process reports a timeout 0.4 s after the limit by itself; this is for one that cannot. */
const killAfterMs = 900;
const folderPrefix = "sql-";
const folderName = /^sql-\d+$/;

export class SqlProcesses implements AsyncDisposable {
  /**
   * Plain statements run in the daemon one at a time: a store has two readers, and the other one must stay free for Coral's own queries.
   */
  readonly engineSlot = new Semaphore(1);
  readonly #options: SqlProcessesOptions;
  readonly #slots = new Semaphore(maxProcesses);
  readonly #running = new Set<SqlProcess>();
  readonly #idle: SqlProcess[] = [];
  #nextNumber = 1;
  #isClosed = false;

  constructor(options: SqlProcessesOptions) {
    this.#options = options;
    removeFolders(options.scratchDirectory);
  }

  get pids(): number[] {
    return [...this.#running].flatMap(({ pid }) => pid ?? []);
  }

  /** Lends a process. Throws `unavailable` when too many statements are queued. */
  async use<T>(work: (process: SqlProcess) => Promise<T>): Promise<T> {
    if (this.#slots.waiting >= maxWaiting) {
      throw new CoralError({
        code: "unavailable",
        message: `Cannot run SQL: ${this.#slots.waiting} statements are already queued; try again in a moment`,
      });
    }
    return await this.#slots.run(async () => {
      if (this.#isClosed) throw closedError();
      const process = this.#idle.pop() ?? (await this.#start());
      process.wake();
      try {
        return await work(process);
      } finally {
        if (process.isAlive && !this.#isClosed) {
          this.#idle.push(process);
          process.sleep(idleMs);
        }
      }
    });
  }

  async #start(): Promise<SqlProcess> {
    const { file, log, scratchDirectory, maySpill, ...settings } = this.#options;
    const directory = join(scratchDirectory, `${folderPrefix}${this.#nextNumber++}`);
    const hasDirectory = this.#makeDirectory(directory);
    const started = new SqlProcess(file ?? programFile(), directory, log);
    this.#running.add(started);
    void started.ended.then(() => {
      this.#running.delete(started);
      const at = this.#idle.indexOf(started);
      if (at >= 0) this.#idle.splice(at, 1);
      rmSync(directory, { recursive: true, force: true });
    });
    await started.order(
      { kind: "open", settings: { ...settings, ...(maySpill && hasDirectory && { tempDirectory: directory }) } },
      { timeoutMs: startTimeoutMs },
    );
    return started;
  }

  /** False if it cannot be created, such as on a full disk: plain statements do not need it. */
  #makeDirectory(directory: string): boolean {
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      giveToFolderOwner(directory);
      return true;
    } catch (error) {
      this.#options.log.warn("cannot create a directory for an SQL process; statements that need one will fail", { directory, error });
      return false;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const running = [...this.#running];
    for (const process of running) process.kill(closedError());
    await Promise.all(running.map(({ ended }) => ended));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A failure with the additional facts that came with it. */
export class SqlFailure extends Error {
  readonly error: CoralError;
  readonly isUnexplained: boolean;

  constructor(error: CoralError, isUnexplained: boolean) {
    super(error.message);
    this.error = error;
    this.isUnexplained = isUnexplained;
  }
}

export class SqlProcess {
  /** Directory for exported rows. */
  readonly directory: string;
  /** Resolves when the process has exited. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  #pending: { resolve: (answer: SqlAnswer) => void; reject: (error: unknown) => void } | undefined;
  #reason: CoralError | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #isAlive = true;

  constructor(file: string, directory: string, log: Logger) {
    this.directory = directory;
    const child = spawn(process.execPath, ["--max-semi-space-size=4", "--v8-pool-size=1", file], {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      serialization: "advanced",
    });
    this.#child = child;
    child.on("message", (answer) => this.#pending?.resolve(answer as SqlAnswer));
    this.ended = new Promise((resolve) => {
      const end = (why: string): void => {
        this.#isAlive = false;
        clearTimeout(this.#idleTimer);
        if (this.#reason === undefined && this.#pending !== undefined)
          log.warn(`SQL process exited: ${why}; the next statement starts another`);
        this.#pending?.reject(this.#reason ?? endedUnexpectedly(why));
        resolve();
      };
      child.once("exit", (code, signal) => end(signal ?? `exit code ${code}`));
      child.once("error", (error) => {
        if (child.pid === undefined) end(error.message);
      });
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isAlive(): boolean {
    return this.#isAlive && this.#reason === undefined;
  }

  /** Sends an order. Kills the process at the time limit, when the signal aborts, and when it reports that the statement does not end. */
  async order<O extends SqlOrder>(
    order: O,
    limits: { timeoutMs: number; signal?: AbortSignal | undefined },
  ): Promise<SqlOrderResults[O["kind"]]> {
    const { timeoutMs, signal } = limits;
    const timer = setTimeout(() => this.kill(endedError("timeout", timeoutMs)), timeoutMs + killAfterMs);
    const onAbort = (): void => this.kill(endedError("cancelled", timeoutMs));
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      if (signal?.aborted) throw endedError("cancelled", timeoutMs);
      if (!this.isAlive) throw this.#reason ?? endedUnexpectedly("it exited between two statements");
      const answer = await new Promise<SqlAnswer>((resolve, reject) => {
        this.#pending = { resolve, reject };
        this.#child.send(order, (error) => {
          if (error) reject(endedUnexpectedly(error.message));
        });
      });
      if (answer.ok) return answer.result as SqlOrderResults[O["kind"]];
      const error = new CoralError(answer.error);
      if (answer.isStuck) this.kill(error);
      throw new SqlFailure(error, answer.isUnexplained);
    } finally {
      this.#pending = undefined;
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
  }

  kill(reason: CoralError): void {
    this.#reason ??= reason;
    this.#child.kill("SIGKILL");
  }

  /** Does not keep the daemon running. */
  sleep(killAfterIdleMs: number): void {
    this.#idleTimer = setTimeout(() => this.kill(closedError()), killAfterIdleMs);
    this.#idleTimer.unref();
  }

  wake(): void {
    clearTimeout(this.#idleTimer);
  }
}

function closedError(): CoralError {
  return new CoralError({ code: "unavailable", message: "Cannot run SQL: the store is closed" });
}

function endedUnexpectedly(why: string): CoralError {
  const isKilled = why === "SIGKILL" || why === "SIGABRT";
  return new CoralError({
    code: isKilled ? "exhausted" : "unavailable",
    message: isKilled
      ? "Cannot finish the SQL statement: its process was killed, as the kernel does when memory runs out; filter earlier, aggregate, or sort and join less"
      : `Cannot finish the SQL statement: its process exited (${why}); try again`,
  });
}

/** Removes what a killed daemon left. */
function removeFolders(directory: string): void {
  if (!existsSync(directory)) return;
  for (const name of readdirSync(directory)) if (folderName.test(name)) rmSync(join(directory, name), { recursive: true, force: true });
}

function programFile(): string {
  const file = ["./sql-process.js", "../../../../dist/sql-process.js"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
  if (file === undefined) {
    throw new CoralError({ code: "internal", message: "Cannot run SQL: sql-process.js is missing; build again with `npm run build`" });
  }
  return file;
}
