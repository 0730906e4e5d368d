/**
 * The locked pid file: says who runs, and lets only one run. The lock (flock) dies with its process, so a file left by kill -9 is not
 * in the way; the file stays, unlocked, and is written over.
 */

import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { CoralError } from "../base/errors.ts";
import { sudoOwner } from "../config/index.ts";
import { tryLockFile } from "../probes/index.ts";
import { fchownSync } from "node:fs";

export interface PidRecord {
  pid: number;
  kind: string;
  version: string;
  startedAt: string;
  /** Filled in once the daemon listens. */
  endpoints: Record<string, string>;
}

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
  static acquire(path: string, kind: string, version: string): PidFile {
    const fd = openSync(path, "a+", 0o600);
    if (!tryLockFile(fd)) {
      closeSync(fd);
      const running = readPidFile(path);
      const who = running ? ` with pid ${running.pid} since ${running.startedAt}` : "";
      throw new CoralError({
        code: "already-exists",
        message: `Cannot start the ${kind}: it is running already${who}; stop it with \`coral ${kind} stop\` first`,
        details: { ...running },
      });
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
    ftruncateSync(this.#fd, 0);
    writeSync(this.#fd, `${JSON.stringify(this.#record)}\n`, 0);
  }

  /** The file is emptied, not removed: removing it would let two starters lock two different files of one name. */
  [Symbol.dispose](): void {
    ftruncateSync(this.#fd, 0);
    closeSync(this.#fd);
  }
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

/** The running holder of the pid file, or undefined. Takes and releases the lock to find out. */
export function runningHolder(path: string): PidRecord | undefined {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch {
    // No file, nobody.
    return undefined;
  }
  try {
    return tryLockFile(fd) ? undefined : readPidFile(path);
  } finally {
    closeSync(fd);
  }
}

function isPidRecord(value: unknown): value is PidRecord {
  return typeof value === "object" && value !== null && "pid" in value && Number.isSafeInteger(value.pid) && "startedAt" in value;
}
