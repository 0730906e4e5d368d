/** Appends the bodies of one signal to write-ahead files and decides where each file ends. No other code decides that. */

import { rmSync } from "node:fs";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { CrashPoints } from "./crash-points.ts";
import { giveToFolderOwner, writeAheadPath } from "./segment-files.ts";
import { WriteAheadFile, type WriteAheadRecord } from "./write-ahead.ts";

/** A write-ahead file is closed and sealed when the first of these limits is reached. */
export interface CutLimits {
  rows: number;
  /** Total size of bodies. */
  bytes: number;
  /** Time since the first body. */
  ageMs: number;
}

/** A closed write-ahead file. */
export interface CutFile {
  number: number;
  file: string;
  /** Row count as declared by the senders of the bodies. */
  rows: number;
  /** Rows of an incomplete last record after a crash; they are lost. */
  tornRows?: number;
  sizeBytes: number;
  /** Resolves when all writes have finished. */
  closed: Promise<void>;
}

export interface SegmentIntakeOptions {
  signal: string;
  root: string;
  nextNumber: number;
  limits: CutLimits;
  /** Limit on queued body bytes; more are rejected. */
  maxWaitingBytes: number;
  /** Above this many queued bytes, further bodies are delayed, at most for `maxHoldMs`. */
  holdBytes: number;
  maxHoldMs: number;
  onCut: (cut: CutFile) => void;
  crashPoints: CrashPoints | undefined;
  log: Logger;
}

/** A delayed body. */
interface Held {
  resolve: () => void;
  reject: (error: unknown) => void;
  timer: NodeJS.Timeout;
}

interface OpenFile {
  number: number;
  ahead: WriteAheadFile;
  rows: number;
  sizeBytes: number;
  timer: NodeJS.Timeout;
}

export class SegmentIntake {
  readonly #options: SegmentIntakeOptions;
  #open: OpenFile | undefined;
  #nextNumber: number;
  /** Bytes of closed files that are not stored yet. */
  #waitingBytes = 0;
  /** First in, first out. The sender limits their number. */
  #held: Held[] = [];
  #closed = false;

  constructor(options: SegmentIntakeOptions) {
    this.#options = options;
    this.#nextNumber = options.nextNumber;
  }

  /** Number of the next file. */
  get nextNumber(): number {
    return this.#nextNumber;
  }

  get waitingBytes(): number {
    return this.#waitingBytes + (this.#open?.sizeBytes ?? 0);
  }

  /**
   * Resolves when the body would survive a crash. Rejects with `exhausted` (queue full) or `unavailable` (the disk rejects writes). Delays
   * senders that are faster than sealing, so that rows become readable soon after they arrive.
   */
  async append(record: WriteAheadRecord): Promise<void> {
    this.#check(record);
    if (this.#held.length > 0 || !this.#hasCapacity) await this.#hold();
    try {
      await this.#write(record);
    } catch (error) {
      throw refusal(this.#options.signal, error);
    }
    this.#options.crashPoints?.reached("body-written");
  }

  #write(record: WriteAheadRecord): Promise<void> {
    const { limits } = this.#options;
    try {
      this.#check(record);
      this.#open ??= this.#begin();
      const open = this.#open;
      open.rows += record.rows;
      open.sizeBytes += record.body.length;
      const written = open.ahead.append(record);
      if (open.rows >= limits.rows || open.sizeBytes >= limits.bytes) this.cut();
      return written;
    } finally {
      // Also after a failure: the next append may be a while away.
      if (this.#hasCapacity) this.#releaseNext();
    }
  }

  #check({ body }: WriteAheadRecord): void {
    const { signal, maxWaitingBytes } = this.#options;
    if (this.#closed) throw new CoralError({ code: "unavailable", message: `Cannot store rows of "${signal}": the store is closed` });
    if (this.waitingBytes + body.length > maxWaitingBytes) throw this.#exhausted(`of ${maxWaitingBytes} bytes are already queued`);
  }

  #exhausted(state: string): CoralError {
    return new CoralError({ code: "exhausted", message: `Cannot store rows of "${this.#options.signal}": ${this.waitingBytes} ${state}` });
  }

  #hold(): Promise<void> {
    const { maxHoldMs } = this.#options;
    return new Promise((resolve, reject) => {
      const held: Held = {
        resolve,
        reject,
        timer: setTimeout(() => {
          this.#held.splice(this.#held.indexOf(held), 1);
          reject(this.#exhausted(`bytes are still queued after ${maxHoldMs} ms`));
        }, maxHoldMs),
      };
      this.#held.push(held);
    });
  }

  get #hasCapacity(): boolean {
    return this.waitingBytes <= this.#options.holdBytes;
  }

  /** Releases the first held body, which releases the next one if there is still capacity. */
  #releaseNext(): void {
    const next = this.#held.shift();
    if (next === undefined) return;
    clearTimeout(next.timer);
    next.resolve();
  }

  /** Closes the current file, if there is one. */
  cut(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    clearTimeout(open.timer);
    this.#waitingBytes += open.sizeBytes;
    const { number, ahead, rows, sizeBytes } = open;
    this.#options.onCut({ number, file: ahead.file, rows, sizeBytes, closed: ahead.close() });
  }

  /** Queues a file of the previous process like one of ours. */
  adopt(cut: CutFile): void {
    this.#waitingBytes += cut.sizeBytes;
  }

  /** Call when a cut file has become a segment, or was discarded. */
  release(cut: CutFile): void {
    this.#waitingBytes -= cut.sizeBytes;
    if (this.#hasCapacity) this.#releaseNext();
  }

  /** Resolves when appended bodies survive a power loss. */
  async sync(): Promise<void> {
    await this.#open?.ahead.sync();
  }

  close(): void {
    this.#closed = true;
    // Their appends fail because the store is closed.
    while (this.#held.length > 0) this.#releaseNext();
    this.cut();
  }

  #begin(): OpenFile {
    const { root, signal, limits } = this.#options;
    const number = this.#nextNumber;
    const file = writeAheadPath(root, signal, number);
    let ahead: WriteAheadFile;
    try {
      ahead = new WriteAheadFile(file);
      giveToFolderOwner(file);
    } catch (error) {
      // A file without its header, as a full disk leaves it, would block the next attempt.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") rmSync(file, { force: true });
      throw error;
    }
    this.#nextNumber++;
    const timer = setTimeout(() => this.cut(), limits.ageMs);
    timer.unref();
    return { number, ahead, rows: 0, sizeBytes: 0, timer };
  }
}

function refusal(signal: string, error: unknown): CoralError {
  if (error instanceof CoralError) return error;
  const { code } = error as NodeJS.ErrnoException;
  const state = isNoSpace(error) ? "no space left on the file system; free some space" : CoralError.from(error).message;
  return new CoralError({
    code: "unavailable",
    message: `Cannot store rows of "${signal}": ${state}`,
    cause: error,
    details: { failure: isNoSpace(error) ? "no-space" : (code ?? "other") },
  });
}

export function isNoSpace(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === "ENOSPC" || code === "EDQUOT" || (error instanceof CoralError && error.details["failure"] === "no-space");
}
