/**
 * Keys of recent requests on disk, to recognise requests that are repeated after a restart of the agent. A key is written after its request is stored
 * and before it is acknowledged. There are two files; the older one is dropped as a whole. A record is a key and a wall time in milliseconds, both
 * little-endian doubles of 8 bytes; a truncated record is ignored.
 */

import { closeSync, openSync, readFileSync, renameSync, write } from "node:fs";
import { promisify } from "node:util";
import type { Logger } from "../../base/log.ts";

const writeBytes = promisify(write);
/** A key and a time of 8 bytes each. */
const recordBytes = 16;

export interface RequestJournalOptions {
  /** Path of the newer file; the older one has the suffix `.old`. */
  file: string;
  /** Keys of requests that a former process left in write-ahead files: it may have exited before their keys were written here. */
  unsealed: readonly number[];
  nowMs: () => number;
  log: Logger;
}

/** Written without fsync: it survives the end of the process, but not a power failure. */
export class RequestJournal implements Disposable {
  readonly #options: RequestJournalOptions;
  #descriptor: number | undefined;
  #waiting: number[] = [];
  #writing: Promise<void> | undefined;
  #hasFailed = false;

  constructor(options: RequestJournalOptions) {
    this.#options = options;
    this.#open();
  }

  /** Keys of requests received within `keepMs`, oldest first. If the wall clock is set back, they are kept longer. */
  recent(keepMs: number): number[] {
    const sinceMs = this.#options.nowMs() - keepMs;
    const stored = [`${this.#options.file}.old`, this.#options.file].flatMap((file) => readKeys(file, sinceMs));
    return [...stored, ...this.#options.unsealed];
  }

  /** Resolves when the kernel has the key. Never rejects: a repeated request may be stored twice, but must not be refused. */
  async add(key: number): Promise<void> {
    this.#waiting.push(key);
    this.#writing ??= this.#write();
    await this.#writing;
  }

  /** Starts a new file; keys from before the previous rotation are dropped. */
  rotate(): void {
    if (this.#descriptor === undefined) return;
    this[Symbol.dispose]();
    try {
      renameSync(this.#options.file, `${this.#options.file}.old`);
    } catch (error) {
      this.#failed(error);
    }
    this.#open();
  }

  [Symbol.dispose](): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  async #write(): Promise<void> {
    // One turn of the event loop later, so that the requests of a turn share a write.
    await new Promise((resolve) => setImmediate(resolve));
    const keys = this.#waiting;
    this.#waiting = [];
    this.#writing = undefined;
    if (this.#descriptor === undefined) return;
    const block = Buffer.allocUnsafe(keys.length * recordBytes);
    const nowMs = this.#options.nowMs();
    for (const [index, key] of keys.entries()) {
      block.writeDoubleLE(key, index * recordBytes);
      block.writeDoubleLE(nowMs, index * recordBytes + 8);
    }
    try {
      await writeBytes(this.#descriptor, block);
      this.#hasFailed = false;
    } catch (error) {
      this.#failed(error);
    }
  }

  #open(): void {
    try {
      this.#descriptor = openSync(this.#options.file, "a", 0o600);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Logged once until it works again: a full disk fails for every request. */
  #failed(error: unknown): void {
    if (!this.#hasFailed)
      this.#options.log.warn("request keys are not stored; a request repeated across a restart may be counted twice", { error });
    this.#hasFailed = true;
  }
}

function readKeys(file: string, sinceMs: number): number[] {
  let data: Buffer;
  try {
    data = readFileSync(file);
  } catch {
    // The first start, or no rotation yet.
    return [];
  }
  const keys: number[] = [];
  for (let at = 0; at + recordBytes <= data.length; at += recordBytes) {
    if (data.readDoubleLE(at + 8) >= sinceMs) keys.push(data.readDoubleLE(at));
  }
  return keys;
}
