/** Which build of a program runs: its GNU build-id, else the SHA-256 of the file. For scripts see script-builds.ts. Read once per file, however many processes run it. */

import { createHash } from "node:crypto";
import { readSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { readBuildId } from "../../code/index.ts";
import type { HostRoot } from "../files/host-root.ts";

export interface ExecutableBuild {
  /** Lower-case hex. */
  id: string;
  /** `script`: of what an interpreter runs. */
  kind: "build-id" | "sha256" | "script";
}

/** One version of a file: a replaced or rewritten file has another key. */
export interface ExecutableFile {
  /** Device, inode, time of change and size. */
  key: string;
  build: ExecutableBuild | null;
}

export interface ExecutableBuilds {
  /** Each file is checked once between two calls of this, however many processes run it. */
  beginScan(): void;
  /** The build of `path` on the host, such as `/proc/42/exe`, which also opens deleted files. Null if it cannot be read. */
  of(path: string): ExecutableFile | null;
  /** Hashes files without a build-id; call it between scans. Resolves with the number of hashed files. */
  hashWaiting(signal?: AbortSignal): Promise<number>;
  /** Files waiting to be hashed, and files skipped because they are too large or too many. */
  readonly waiting: number;
  readonly skipped: number;
}

/** Cached files; the oldest is evicted first. */
const maxFiles = 2048;
const maxWaiting = 256;
/** Larger files are mostly data appended to a program. */
const maxHashedBytes = 1024 ** 3;
const pieceBytes = 1024 * 1024;
/** A pause per MiB: hashing takes about a tenth of one core at most. */
const pauseMs = 10;

export function createExecutableBuilds(root: HostRoot): ExecutableBuilds {
  return new ScannedBuilds(root);
}

class ScannedBuilds implements ExecutableBuilds {
  readonly #root: HostRoot;
  /** By the file's key; null for what has no build-id and no hash yet. */
  readonly #builds = new Map<string, ExecutableBuild | null>();
  /** Key to path. */
  readonly #waiting = new Map<string, string>();
  /** Results of this scan, by path. */
  readonly #lookedUp = new Map<string, ExecutableFile | null>();
  #skipped = 0;

  constructor(root: HostRoot) {
    this.#root = root;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get skipped(): number {
    return this.#skipped;
  }

  beginScan(): void {
    this.#lookedUp.clear();
  }

  of(path: string): ExecutableFile | null {
    let answer = this.#lookedUp.get(path);
    if (answer === undefined) {
      answer = this.#read(path);
      this.#lookedUp.set(path, answer);
    }
    return answer;
  }

  async hashWaiting(signal?: AbortSignal): Promise<number> {
    let count = 0;
    for (const [key, path] of this.#waiting) {
      signal?.throwIfAborted();
      this.#waiting.delete(key);
      const id = this.#keyOf(path)?.key === key ? await hashFile(this.#root.resolve(path), signal) : null;
      // Gone or unreadable: retried when another process shows it.
      if (id === null) this.#builds.delete(key);
      else this.#remember(key, { id, kind: "sha256" });
      count++;
    }
    return count;
  }

  #read(path: string): ExecutableFile | null {
    const file = this.#keyOf(path);
    if (!file) return null;
    const { key, sizeBytes } = file;
    const known = this.#builds.get(key);
    if (known !== undefined) {
      // The process it was to be read from may have exited; this one runs the same file.
      if (known === null && this.#waiting.has(key)) this.#waiting.set(key, path);
      return { key, build: known };
    }
    const build = this.#buildIdOf(path);
    this.#remember(key, build);
    if (!build) this.#enqueue(key, path, sizeBytes);
    return { key, build };
  }

  #keyOf(path: string): { key: string; sizeBytes: number } | null {
    const facts = this.#root.stat(path);
    return facts && { key: `${facts.device}:${facts.inode}:${facts.modifiedMs}:${facts.sizeBytes}`, sizeBytes: facts.sizeBytes };
  }

  #buildIdOf(path: string): ExecutableBuild | null {
    const id = this.#root.withOpen(path, (descriptor) => readBuildId((into, offset) => readSync(descriptor, into, 0, into.length, offset)));
    return id === null ? null : { id, kind: "build-id" };
  }

  #remember(key: string, build: ExecutableBuild | null): void {
    this.#builds.delete(key);
    this.#builds.set(key, build);
    if (this.#builds.size <= maxFiles) return;
    const [oldest] = this.#builds.keys();
    if (oldest !== undefined) this.#builds.delete(oldest);
  }

  #enqueue(key: string, path: string, sizeBytes: number): void {
    if (sizeBytes <= maxHashedBytes && this.#waiting.size < maxWaiting) this.#waiting.set(key, path);
    else this.#skipped++;
  }
}

/** Null when the file cannot be read to its end. */
async function hashFile(path: string, signal: AbortSignal | undefined): Promise<string | null> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, "r");
    const hash = createHash("sha256");
    const piece = Buffer.allocUnsafe(pieceBytes);
    for (;;) {
      const { bytesRead } = await file.read(piece, 0, piece.length, null);
      if (bytesRead === 0) return hash.digest("hex");
      hash.update(piece.subarray(0, bytesRead));
      await delay(pauseMs, undefined, { signal });
    }
  } catch (error) {
    if (signal?.aborted) throw error;
    // The process exited, or the file is not readable: the build stays unknown.
    return null;
  } finally {
    await file?.close();
  }
}
