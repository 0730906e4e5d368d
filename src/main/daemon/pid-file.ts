/**
 * The locked pid file: says who runs, and lets only one run. The lock (flock) dies with its process, so a file left by kill -9 is not
 * in the way; the file stays, unlocked, and is written over.
 */

import { closeSync, constants, fchownSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { tryLockFile } from "../../bpf/index.ts";
import { sudoOwner } from "../../config/index.ts";

export interface PidRecord {
  pid: number;
  kind: string;
  version: string;
  startedAt: string;
  /** Filled in once the daemon listens. */
  endpoints: Record<string, string>;
}

/** Whoever only looks (`runningHolder`) has the lock for an instant; a daemon that starts meanwhile must not take that for another daemon. */
const lockPatienceMs = 300;
const lockPollMs = 10;

/** Records are padded to this, so that a new one covers the old one in a single write and no reader sees a mixture. */
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
    const fd = openPidFile(path, constants.O_RDWR | constants.O_CREAT);
    const deadlineMs = performance.now() + lockPatienceMs;
    while (!tryLockFile(fd)) {
      if (performance.now() > deadlineMs) {
        closeSync(fd);
        throw alreadyRunning(kind, readPidFile(path));
      }
      await sleep(lockPollMs);
    }
    const owner = sudoOwner();
    if (owner) fchownSync(fd, owner.uid, owner.gid);
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
    const text = `${JSON.stringify(this.#record).padEnd(recordBytes - 1)}\n`;
    writeSync(this.#fd, text, 0);
    ftruncateSync(this.#fd, Buffer.byteLength(text));
  }

  /** The file is emptied, not removed: removing it would let two starters lock two different files of one name. */
  [Symbol.dispose](): void {
    ftruncateSync(this.#fd, 0);
    closeSync(this.#fd);
  }
}

/** What to say to whoever wants to start a second one. */
export function alreadyRunning(kind: string, running: PidRecord | undefined): CoralError {
  const who = running ? ` with pid ${running.pid} since ${running.startedAt}` : "";
  return new CoralError({
    code: "already-exists",
    message: `Cannot start the ${kind}: it is running already${who}; stop it with \`coral ${kind} stop\` first`,
    details: { ...running },
  });
}

/** What the file says, whoever wrote it; undefined when it is missing, empty or half-written. Says nothing about being alive. */
export function readPidFile(path: string): PidRecord | undefined {
  try {
    const record: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isPidRecord(record) ? record : undefined;
  } catch {
    // Missing, empty after a clean stop, or being written right now: nobody to name.
    return undefined;
  }
}

/** The running holder of the pid file, or undefined. Takes and releases the lock to find out; throws `not-permitted` when it may not look. */
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

function openPidFile(path: string, flags: number): number {
  try {
    return openSync(path, flags, 0o600);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ENOTDIR") {
      throw new CoralError({ code: "not-found", message: `Cannot open pid file "${path}": there is none`, cause: error });
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
