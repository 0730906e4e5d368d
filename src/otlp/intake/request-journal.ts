/**
 * Keys of recent requests on disk, so that a request that is sent again after a restart of the agent is recognised. A key is written after its
 * request is stored and before it is acknowledged. Two files of which the older is forgotten as a whole. Records are key and wall time in
 * milliseconds, 8 bytes each, little-endian doubles; a record cut short by a crash is not read.
 */

import { closeSync, openSync, readFileSync, renameSync, write } from "node:fs";
import { promisify } from "node:util";
import type { Logger } from "../../base/log.ts";

const writeBytes = promisify(write);
const recordBytes = 16;

export interface RequestJournalOptions {
  /** Of the newer file; the older one has `.old` after it. */
  file: string;
  /** Keys of what a former process left in write-ahead files: it may have ended before they were written here. */
  unsealed: readonly number[];
  nowMs: () => number;
  log: Logger;
}

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

  /** Keys of requests that came within `keepMs`, oldest first. A wall clock that was set back keeps them longer. */
  recent(keepMs: number): number[] {
    const sinceMs = this.#options.nowMs() - keepMs;
    const stored = [`${this.#options.file}.old`, this.#options.file].flatMap((file) => readKeys(file, sinceMs));
    return [...stored, ...this.#options.unsealed];
  }

  /** Resolves when the kernel has the key. Never rejects: without it a repeated request may be stored twice, but must not be refused. */
  async add(key: number): Promise<void> {
    this.#waiting.push(key);
    this.#writing ??= this.#write();
    await this.#writing;
  }

  /** The next keys go to a new file, and those before the last turn are forgotten. */
  turn(): void {
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
    // A turn later, so that the requests of one turn share a write.
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
    // The first start, or no turn yet.
    return [];
  }
  const keys: number[] = [];
  for (let at = 0; at + recordBytes <= data.length; at += recordBytes) {
    if (data.readDoubleLE(at + 8) >= sinceMs) keys.push(data.readDoubleLE(at));
  }
  return keys;
}
