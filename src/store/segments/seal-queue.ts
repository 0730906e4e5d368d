/**
 * Seals closed write-ahead files of one signal into segments. `seal` encodes several concurrently, but the manifest gets them in order of
 * number, because a colony lists what follows a number.
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
  /** Undefined: the file could not be decoded and is discarded. */
  sealed: SealedSegment | undefined;
  temporaryFile: string;
}

export interface SealQueueOptions {
  signal: string;
  seal: SealSegment;
  slots: Semaphore;
  temporaryFileOf: (number: number) => string;
  finalFileOf: (number: number) => string;
  /** Commits all in one transaction. A rejection is retried. */
  commit: (ready: readonly ReadySegment[]) => Promise<void>;
  /** Called after the commit. */
  onStored: (cut: CutFile) => void;
  /** Called for a file that was discarded. */
  onDiscarded: (cut: CutFile, reason: string) => void;
  /** Called when the disk is full, before the next attempt. */
  freeSpace: () => Promise<void>;
  crashPoints: CrashPoints | undefined;
  log: Logger;
  retryMs: number;
}

/** After this many failures other than a full disk, a file is discarded: it would fail for ever. */
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
  /** Cleared in the same tick as the last check for jobs, so that none is missed. */
  #isCommitting = false;

  constructor(options: SealQueueOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#jobs.length;
  }

  /** Call in order of number. */
  add(cut: CutFile): void {
    const job: Job = { cut, ready: undefined, isRenamed: false };
    this.#jobs.push(job);
    const run = this.#run(job).finally(() => this.#running.delete(run));
    this.#running.add(run);
  }

  /** Resolves when all added files are stored. Rejects if one stays in its write-ahead file. */
  async drained(): Promise<void> {
    const last = this.#jobs.at(-1);
    await Promise.all(this.#running);
    if (last !== undefined && this.#jobs.includes(last)) {
      throw new CoralError({
        code: "unavailable",
        message: `Cannot store ${this.#jobs.length} segments now: their rows stay in write-ahead files until the next start`,
      });
    }
  }

  /** Failures from now on are final, so that a full disk does not keep the store open. The rows stay in their write-ahead file. */
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
      if (!this.#stop.signal.aborted) log.error("cannot store a segment; its rows stay in the write-ahead file", { error });
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
        if (isNoSpace(error)) await this.#waitForSpace(error);
        else if (attempt++ >= maxAttempts) return { cut, sealed: undefined, temporaryFile };
        else log.warn("cannot seal a segment; retrying", { signal, number: cut.number, error });
      }
    }
  }

  /** Commits the longest run of finished segments at the head of the queue. */
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
        await this.#waitForSpace(error);
      }
    }
    crashPoints?.reached("manifest-committed");
    for (const { cut, ready } of group) {
      if (ready?.sealed) rmSync(cut.file, { force: true });
      else this.#discard(cut);
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

  #discard(cut: CutFile): void {
    const reason = "the write-ahead file cannot be sealed";
    moveAside(cut.file, this.#options.log, reason);
    this.#options.onDiscarded(cut, reason);
  }

  async #waitForSpace(error: unknown): Promise<void> {
    const { log, signal, freeSpace, retryMs } = this.#options;
    log.warn("cannot store a segment now; its rows wait in the write-ahead file", { signal, error });
    await freeSpace().catch((failure: unknown) => log.warn("cannot free disk space", { error: failure }));
    await sleep(retryMs, this.#stop.signal);
  }
}
