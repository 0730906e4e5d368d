/**
 * Writes audit entries ahead of the audited action. A database commit takes longer than most commands, so entries are first appended to a
 * small journal file, which survives a crash, and committed right after. On start, entries left in the journal are committed first or, on a
 * full disk, as soon as possible.
 */

import { closeSync, constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { openOwned } from "../../base/open-owned.ts";
import type { AuditEntry } from "../signals/audit.ts";

export interface AuditWriterOptions {
  /** The journal, used by this writer only; almost always empty. */
  file: string;
  /** Owner of the file. Absent: the current user. */
  owner?: { uid: number; gid: number } | undefined;
  /** Stores all of them in one transaction, in this order. */
  commit: (entries: readonly AuditEntry[]) => Promise<void>;
  /** Whether an entry left in the journal had already been committed before the crash. */
  isCommitted: (entry: AuditEntry) => Promise<boolean>;
  log: Logger;
  /** How long to gather entries before a commit, unless a flush is requested: a commit costs more than a command. Default 200 ms. */
  gatherMs?: number;
  /** Retry interval after a failed commit. Default 1 s. */
  retryMs?: number;
}

/** Limit on uncommitted entries. Beyond it entries are rejected, and with them the audited action. */
const maxWaiting = 1_000;
/** An audit query waits at most this long for a stuck database. */
const maxSettleMs = 5_000;

interface Queued {
  entry: AuditEntry;
  resolve: () => void;
  reject: (error: unknown) => void;
}

export class AuditWriter implements AsyncDisposable {
  readonly #options: AuditWriterOptions;
  readonly #file: FileHandle;
  readonly #stop = new AbortController();
  /** Aborted to commit at once. */
  #hurry = new AbortController();
  /** Not in the journal yet. */
  #queued: Queued[] = [];
  /** In the journal, not in the database yet. */
  #waiting: AuditEntry[] = [];
  #journaling: Promise<void> | undefined;
  #committing: Promise<void> | undefined;
  #fileWork: Promise<void> = Promise.resolve();
  #isFailing = false;
  #sizeBytes = 0;
  #closed: Promise<void> | undefined;

  private constructor(options: AuditWriterOptions, file: FileHandle) {
    this.#options = options;
    this.#file = file;
  }

  /**
   * Commits what the previous process left. Entries that cannot be committed, such as on a full disk, stay in the journal and are retried:
   * they must not keep a daemon from starting.
   */
  static async open(options: AuditWriterOptions): Promise<AuditWriter> {
    const file = await openJournal(options);
    try {
      const writer = new AuditWriter(options, file);
      await writer.#takeLeft(await file.readFile());
      return writer;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Resolves when the entry would survive a crash; rejects when it cannot be stored. */
  async write(entry: AuditEntry): Promise<void> {
    if (this.#closed) throw new CoralError({ code: "unavailable", message: "Cannot write the audit: the store is closed" });
    if (this.#queued.length + this.#waiting.length >= maxWaiting)
      throw new CoralError({ code: "exhausted", message: `Cannot write the audit: ${maxWaiting} entries are already queued; try again` });
    await new Promise<void>((resolve, reject) => {
      this.#queued.push({ entry, resolve, reject });
      this.#journaling ??= this.#writeJournal();
    });
  }

  /** In order: entries in the journal, or derived at start, that are not in the database yet. */
  get waiting(): readonly AuditEntry[] {
    return this.#waiting;
  }

  /**
   * Commits entries that the next start would derive again, so they need no journal line. Those that cannot be committed now are retried.
   */
  async derived(entries: readonly AuditEntry[]): Promise<void> {
    if (entries.length === 0) return;
    try {
      // Queues them behind earlier entries, so that the order is kept.
      if (this.#waiting.length === 0) return await this.#options.commit(entries);
    } catch (error) {
      this.#failed(error);
    }
    this.#waiting.push(...entries);
    this.#committing ??= this.#commit();
  }

  /** Resolves when all entries written so far are in the database, or after a timeout. */
  async settled(): Promise<void> {
    const endMs = performance.now() + maxSettleMs;
    while ((this.#journaling ?? this.#committing) !== undefined && performance.now() < endMs) {
      this.#hurry.abort();
      await Promise.race([this.#journaling ?? this.#committing, sleep(maxSettleMs, this.#stop.signal).catch(() => undefined)]);
    }
  }

  /** Commits queued entries if possible; the rest stays in the journal. */
  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #takeLeft(journal: Buffer): Promise<void> {
    // An incomplete last line would make the next one unreadable.
    this.#sizeBytes = journal.lastIndexOf("\n") + 1;
    await this.#file.truncate(this.#sizeBytes);
    const left: AuditEntry[] = [];
    for (const entry of entriesIn(journal.toString("utf8"))) if (!(await this.#options.isCommitted(entry))) left.push(entry);
    await this.derived(left);
    await this.#empty();
  }

  async #end(): Promise<void> {
    await this.#journaling;
    // Do not wait for a failed commit: the next start repeats it.
    if (this.#isFailing) this.#stop.abort();
    await this.settled();
    this.#stop.abort();
    await this.#committing;
    await this.#file.close();
  }

  /** Entries that arrive during a write share the next write. Never rejects. */
  async #writeJournal(): Promise<void> {
    await Promise.resolve();
    while (this.#queued.length > 0) {
      const group = this.#queued;
      this.#queued = [];
      try {
        await this.#withFile(() => this.#append(group.map(({ entry }) => entry)));
        for (const { resolve } of group) resolve();
      } catch (error) {
        for (const { reject } of group) reject(cannotWrite(error));
      }
      if (this.#waiting.length > 0) this.#committing ??= this.#commit();
    }
    this.#journaling = undefined;
  }

  async #append(entries: readonly AuditEntry[]): Promise<void> {
    const bytes = Buffer.from(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    try {
      await this.#file.appendFile(bytes);
    } catch (error) {
      // A partial line would make the next one unreadable.
      await this.#file.truncate(this.#sizeBytes).catch(() => undefined);
      throw error;
    }
    this.#sizeBytes += bytes.length;
    this.#waiting.push(...entries);
  }

  /** Never rejects: failed commits are retried. */
  async #commit(): Promise<void> {
    const { commit, gatherMs = 200, retryMs = 1_000 } = this.#options;
    await sleep(gatherMs, AbortSignal.any([this.#hurry.signal, this.#stop.signal])).catch(() => undefined); // aborted: at once
    while (this.#waiting.length > 0 && !this.#stop.signal.aborted) {
      const group = [...this.#waiting];
      try {
        await commit(group);
        this.#waiting.splice(0, group.length);
        this.#isFailing = false;
      } catch (error) {
        this.#failed(error);
        await sleep(retryMs, this.#stop.signal).catch(() => undefined); // aborted: the loop's condition ends it
      }
    }
    await this.#withFile(() => this.#empty());
    this.#committing = undefined;
    if (this.#waiting.length === 0 && this.#hurry.signal.aborted) this.#hurry = new AbortController();
    // Entries that arrived while the file was being truncated.
    if (this.#waiting.length > 0 && !this.#stop.signal.aborted) this.#committing = this.#commit();
  }

  #failed(error: unknown): void {
    if (!this.#isFailing) this.#options.log.error("cannot commit audit entries; keeping them in the journal and retrying", { error });
    this.#isFailing = true;
  }

  async #empty(): Promise<void> {
    if (this.#waiting.length > 0) return;
    try {
      await this.#file.truncate(0);
      this.#sizeBytes = 0;
    } catch (error) {
      // Entries that are already committed are skipped at the next start.
      this.#options.log.warn("cannot truncate the audit journal after a commit", { error });
    }
  }

  /** Serialised: the journal must not be truncated while an entry is being appended. */
  #withFile(work: () => Promise<void>): Promise<void> {
    const done = this.#fileWork.then(work);
    this.#fileWork = done.catch(() => undefined);
    return done;
  }
}

function cannotWrite(error: unknown): CoralError {
  return new CoralError({ code: "unavailable", message: `Cannot write the audit: ${CoralError.from(error).message}`, cause: error });
}

/** Text after the last line break was left by a process that ended during the write; its action was never executed. */
function entriesIn(text: string): AuditEntry[] {
  return text.split("\n").flatMap((line) => {
    try {
      return line === "" ? [] : [JSON.parse(line) as AuditEntry];
    } catch {
      return [];
    }
  });
}

async function openJournal({ file, owner }: AuditWriterOptions): Promise<FileHandle> {
  const descriptor = openOwned(file, constants.O_RDWR | constants.O_CREAT | constants.O_APPEND, 0o600, owner);
  try {
    // Compare the open file, whatever its name refers to by now.
    return await open(owner ? `/proc/self/fd/${descriptor}` : file, "a+", 0o600);
  } finally {
    closeSync(descriptor);
  }
}
