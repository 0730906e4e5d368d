/**
 * The locked pid file: records the running daemon, and allows only one. The kernel releases the lock (flock) with the process, so a file left by
 * kill -9 is unlocked and gets overwritten.
 */

import { closeSync, constants, ftruncateSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { sleep } from "../../base/clock.ts";
import { CoralError, fileError } from "../../base/errors.ts";
import { type FileOwner, openOwned } from "../../base/open-owned.ts";
import { tryLockFile } from "../../bpf/index.ts";
import { colonyPaths, homePaths, sudoOwner } from "../../config/index.ts";

export interface PidRecord {
  pid: number;
  kind: string;
  version: string;
  startedAt: string;
  /** Filled in once the daemon listens. */
  endpoints: Record<string, string>;
}

/** `runningHolder` takes the lock for an instant; a starting daemon must not mistake that for another daemon. */
const lockTimeoutMs = 300;
const lockPollMs = 10;

/** Records are padded to this size, so that one write replaces the old record and readers never see a mix. */
const recordBytes = 1_024;

export class PidFile implements Disposable {
  readonly #fd: number;
  readonly #path: string;
  #record: PidRecord;

  private constructor(fd: number, path: string, record: PidRecord) {
    this.#fd = fd;
    this.#path = path;
    this.#record = record;
    this.#write();
  }

  /** Throws `already-exists`, naming the pid, when another process holds the lock. */
  static async acquire(path: string, kind: string, version: string): Promise<PidFile> {
    const fd = openPidFile(path, constants.O_RDWR | constants.O_CREAT, sudoOwner());
    const deadlineMs = performance.now() + lockTimeoutMs;
    while (!tryLockFile(fd)) {
      if (performance.now() > deadlineMs) {
        closeSync(fd);
        throw alreadyRunning(kind, readPidFile(path));
      }
      await sleep(lockPollMs);
    }
    return new PidFile(fd, path, { pid: process.pid, kind, version, startedAt: new Date().toISOString(), endpoints: {} });
  }

  setEndpoints(endpoints: Record<string, string>): void {
    this.#record = { ...this.#record, endpoints };
    this.#write();
  }

  get path(): string {
    return this.#path;
  }

  #write(): void {
    this.#replace(`${JSON.stringify(this.#record).padEnd(recordBytes - 1)}\n`);
  }

  #replace(text: string): void {
    try {
      writeSync(this.#fd, text, 0);
      ftruncateSync(this.#fd, Buffer.byteLength(text));
    } catch (error) {
      throw fileError("write pid file", this.#path, error);
    }
  }

  /**
   * Blank, not removed: removing it would let two starters lock two different files of one name. Not empty either: the next start needs its block,
   * also on a full disk.
   */
  [Symbol.dispose](): void {
    try {
      this.#replace(`${" ".repeat(recordBytes - 1)}\n`);
    } finally {
      closeSync(this.#fd);
    }
  }
}

/** The error for starting a second daemon. */
export function alreadyRunning(kind: string, running: PidRecord | undefined): CoralError {
  const who = running ? ` with pid ${running.pid} since ${running.startedAt}` : "";
  return new CoralError({
    code: "already-exists",
    message: `Cannot start the ${kind}: it is already running${who}; stop it first with \`coral ${kind} stop\``,
    details: { ...running },
  });
}

/** The file's record; undefined when it is missing, empty or incomplete. Its process may have ended. */
export function readPidFile(path: string): PidRecord | undefined {
  try {
    const record: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isPidRecord(record) ? record : undefined;
  } catch {
    // Missing, empty after a clean stop, or being written.
    return undefined;
  }
}

/** The record of the running daemon, or undefined. Tests the lock; throws `not-permitted` for a file that it may not open. */
export function runningHolder(path: string): PidRecord | undefined {
  let fd: number;
  try {
    fd = openPidFile(path, constants.O_RDONLY);
  } catch (error) {
    if (error instanceof CoralError && error.code === "not-found") return undefined;
    throw error;
  }
  try {
    return tryLockFile(fd) ? undefined : readPidFile(path);
  } finally {
    closeSync(fd);
  }
}

/** Pids of this home's running colonies, whose requests are Coral's own. Synchronous: the agent calls it after each scan. */
export function runningColonyPids(home: string): number[] {
  try {
    return readdirSync(homePaths(home).coloniesDirectory).flatMap((id) => runningHolder(colonyPaths(home, id).pidFile)?.pid ?? []);
  } catch {
    // No colonies here, or none that this user may read: nothing to exclude.
    return [];
  }
}

function openPidFile(path: string, flags: number, owner?: FileOwner): number {
  try {
    return openOwned(path, flags, 0o600, owner);
  } catch (error) {
    if (error instanceof CoralError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ENOTDIR") {
      throw new CoralError({ code: "not-found", message: `Cannot open pid file "${path}": no such file`, cause: error });
    }
    throw new CoralError({
      code: code === "EACCES" ? "not-permitted" : "unavailable",
      message: `Cannot open pid file "${path}": ${code === "EACCES" ? "it belongs to another user; use sudo, or run this as that user" : CoralError.from(error).message}`,
      cause: error,
    });
  }
}

function isPidRecord(value: unknown): value is PidRecord {
  return typeof value === "object" && value !== null && "pid" in value && Number.isSafeInteger(value.pid) && "startedAt" in value;
}
