/**
 * Cut write-ahead files of one signal become segments: encoded by `seal`, several at once, but entered into the manifest in the order
 * of their numbers, because a colony asks for what comes after a number.
 */

import { renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Semaphore } from "../../base/semaphore.ts";
import type { CrashPoints } from "./crash-points.ts";
import type { SealedSegment, SealSegment } from "./seal-segment.ts";
import { giveToFolderOwner, moveAside, syncFolder } from "./segment-files.ts";
import { type CutFile, isNoSpace } from "./segment-intake.ts";

export interface ReadySegment {
  cut: CutFile;
  /** Undefined: the file could not be decoded and is given up. */
  sealed: SealedSegment | undefined;
  temporaryFile: string;
}

export interface SealQueueOptions {
  signal: string;
  seal: SealSegment;
  slots: Semaphore;
  temporaryFileOf: (number: number) => string;
  finalFileOf: (number: number) => string;
  /** One transaction for all; a rejection is tried again. */
  commit: (ready: readonly ReadySegment[]) => Promise<void>;
  /** After the commit. */
  onStored: (cut: CutFile) => void;
  /** Rows of a file that was given up. */
  onGivenUp: (cut: CutFile, reason: string) => void;
  /** Asked for when the disk is full, before the next attempt. */
  makeRoom: () => Promise<void>;
  crashPoints: CrashPoints | undefined;
  log: Logger;
  retryMs: number;
}

/** A file that fails so often for another reason than a full disk will fail for ever. */
const maxAttempts = 3;
const maxPerCommit = 16;

interface Job {
  cut: CutFile;
  ready: ReadySegment | undefined;
  isRenamed: boolean;
}

export class SealQueue {
  readonly #options: SealQueueOptions;
  readonly #jobs: Job[] = [];
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  #committing: Promise<void> = Promise.resolve();
  /** Cleared in the same turn as the last look at the jobs, so that none can fall between. */
  #isCommitting = false;

  constructor(options: SealQueueOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#jobs.length;
  }

  /** In order of number. */
  add(cut: CutFile): void {
    const job: Job = { cut, ready: undefined, isRenamed: false };
    this.#jobs.push(job);
    const run = this.#run(job).finally(() => this.#running.delete(run));
    this.#running.add(run);
  }

  /** Resolves when all that was added is stored; rejects when some of it stays in its write-ahead file. */
  async drained(): Promise<void> {
    const last = this.#jobs.at(-1);
    await Promise.all(this.#running);
    if (last !== undefined && this.#jobs.includes(last)) {
      throw new CoralError({
        code: "unavailable",
        message: `Cannot store ${this.#jobs.length} segments now: they wait in write-ahead files`,
      });
    }
  }

  /** What fails from now on is not tried again, so that a full disk does not keep the store open; it stays in its write-ahead file. */
  endRetries(): void {
    this.#stop.abort();
  }

  /** Never rejects. */
  async #run(job: Job): Promise<void> {
    const { slots, crashPoints, log } = this.#options;
    try {
      await job.cut.closed;
      crashPoints?.reached("file-cut");
      job.ready = await slots.run(() => this.#seal(job.cut));
      if (!this.#isCommitting) this.#committing = this.#commitReady();
      await this.#committing;
    } catch (error) {
      if (!this.#stop.signal.aborted) log.error("a segment is not stored; its write-ahead file stays", { error });
    }
  }

  async #seal(cut: CutFile): Promise<ReadySegment> {
    const { signal, seal, temporaryFileOf, crashPoints, log } = this.#options;
    const temporaryFile = temporaryFileOf(cut.number);
    for (let attempt = 1; ; ) {
      try {
        const sealed = await seal({ signal, number: cut.number, writeAheadFile: cut.file, rows: cut.rows, temporaryFile });
        crashPoints?.reached("segment-written");
        return { cut, sealed, temporaryFile };
      } catch (error) {
        this.#stop.signal.throwIfAborted();
        rmSync(temporaryFile, { force: true });
        if (isNoSpace(error)) await this.#waitForRoom(error);
        else if (attempt++ >= maxAttempts) return { cut, sealed: undefined, temporaryFile };
        else log.warn("a segment could not be made and is tried again", { signal, number: cut.number, error });
      }
    }
  }

  /** The longest row of finished ones at the head of the line. */
  async #commitReady(): Promise<void> {
    this.#isCommitting = true;
    try {
      for (;;) {
        const end = this.#jobs.findIndex(({ ready }) => ready === undefined);
        const group = this.#jobs.slice(0, Math.min(maxPerCommit, end < 0 ? this.#jobs.length : end));
        if (group.length === 0) return;
        await this.#store(group);
        this.#jobs.splice(0, group.length);
      }
    } finally {
      this.#isCommitting = false;
    }
  }

  async #store(group: readonly Job[]): Promise<void> {
    const { commit, onStored, crashPoints } = this.#options;
    for (;;) {
      try {
        this.#rename(group);
        crashPoints?.reached("segment-renamed");
        await commit(group.map(({ ready }) => ready as ReadySegment));
        break;
      } catch (error) {
        this.#stop.signal.throwIfAborted();
        await this.#waitForRoom(error);
      }
    }
    crashPoints?.reached("manifest-committed");
    for (const { cut, ready } of group) {
      if (ready?.sealed) rmSync(cut.file, { force: true });
      else this.#giveUp(cut);
      onStored(cut);
    }
    crashPoints?.reached("write-ahead-removed");
  }

  #rename(group: readonly Job[]): void {
    const { finalFileOf } = this.#options;
    const folders = new Set<string>();
    for (const job of group) {
      if (job.isRenamed || !job.ready?.sealed || job.ready.sealed.rows === 0) continue;
      const file = finalFileOf(job.cut.number);
      renameSync(job.ready.temporaryFile, file);
      giveToFolderOwner(file);
      job.isRenamed = true;
      folders.add(dirname(file));
    }
    for (const folder of folders) syncFolder(folder);
  }

  #giveUp(cut: CutFile): void {
    const reason = "it could not be made into a segment";
    moveAside(cut.file, this.#options.log, reason);
    this.#options.onGivenUp(cut, reason);
  }

  async #waitForRoom(error: unknown): Promise<void> {
    const { log, signal, makeRoom, retryMs } = this.#options;
    log.warn("a segment cannot be stored now and waits in its write-ahead file", { signal, error });
    await makeRoom().catch((failure: unknown) => log.warn("nothing could be removed to make room", { error: failure }));
    await sleep(retryMs, this.#stop.signal);
  }
}
