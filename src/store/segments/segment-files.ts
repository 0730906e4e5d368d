/** Names and lifecycle of segment files. A name identifies the content, so that a directory can be reconciled with the manifest. */

import { closeSync, constants, fsyncSync, mkdirSync, openSync, readdirSync, readSync, renameSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { handOver, inDirectory } from "../../base/open-owned.ts";
import type { SegmentEntry } from "./segment-manifest.ts";

/** Zero-padded, so that names sort by number. */
const padded = (number: number): string => String(number).padStart(9, "0");

/** Directory name of agent and epoch. Agent ids contain no tilde, so it is unambiguous. Empty at an agent. */
export function sourceFolder({ agentId, epoch }: Pick<SegmentEntry, "agentId" | "epoch">): string {
  return agentId === "" ? "" : `${agentId}~${epoch}`;
}

type Named = Pick<SegmentEntry, "agentId" | "epoch" | "signal" | "firstNumber" | "number">;

/** Path below the directory of segments. */
export function segmentPath(root: string, entry: Named): string {
  const { firstNumber, number } = entry;
  const name = firstNumber === number ? padded(number) : `${padded(firstNumber)}-${padded(number)}`;
  return join(root, entry.signal, sourceFolder(entry), `${name}.parquet`);
}

export function writeAheadPath(root: string, signal: string, number: number): string {
  return join(root, signal, `${padded(number)}.wal`);
}

/** Parses a write-ahead file name; undefined for other files. */
export function writeAheadNumber(name: string): number | undefined {
  const match = /^(\d{1,15})\.wal$/.exec(name);
  return match ? Number(match[1]) : undefined;
}

export function makeFolder(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  const made = [path];
  while (made[0] !== first && dirname(made[0] as string) !== made[0]) made.unshift(dirname(made[0] as string));
  for (const folder of made) giveToFolderOwner(folder);
}

/**
 * Under sudo, files go to the owner of their directory, so that a later start without sudo can read them. A no-op unless root. Symbolic
 * links are not followed, and files with several hard links are skipped: otherwise the owner of the directory could gain files from
 * elsewhere.
 */
export function giveToFolderOwner(path: string): void {
  if (process.getuid?.() !== 0) return;
  inDirectory(dirname(path), (directory) => {
    const { uid, gid } = statSync(directory);
    if (uid === 0) return;
    const descriptor = openSync(`${directory}/${basename(path)}`, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      handOver(path, descriptor, { uid, gid });
    } finally {
      closeSync(descriptor);
    }
  });
}

/** When this returns, the new name is durable. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  giveToFolderOwner(to);
  syncFolder(dirname(to));
}

/** When this returns, new names in the directory are durable. */
export function syncFolder(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Why a file cannot be a complete segment of that size, judging by its first and last bytes; undefined if it looks valid. */
export function damageOf(file: string, sizeBytes: number): string | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return "file not found";
  if (stat.size !== sizeBytes) return `it has ${stat.size} bytes instead of ${sizeBytes}`;
  const descriptor = openSync(file, "r");
  try {
    const ends = Buffer.alloc(8);
    readSync(descriptor, ends, 0, 4, 0);
    readSync(descriptor, ends, 4, 4, sizeBytes - 4);
    return ends.toString("latin1") === "PAR1PAR1" ? undefined : "it lacks the Parquet magic bytes";
  } finally {
    closeSync(descriptor);
  }
}

const maxDamagedKept = 3;

/** Keeps damaged files for inspection, at most three per directory. */
export function moveAside(file: string, log: Logger, reason: string): void {
  const movedTo = `${file}.damaged`;
  try {
    renameSync(file, movedTo);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  log.error("moved a damaged segment file aside", { file, movedTo, reason });
  const folder = dirname(file);
  const kept = readdirSync(folder).filter((name) => name.endsWith(".damaged"));
  for (const name of kept.sort().slice(0, -maxDamagedKept)) rmSync(join(folder, name), { force: true });
}

/** Removes files of `folder` that no manifest row refers to and that are not kept on purpose: temporary files and orphaned segments. */
export function removeOrphans(folder: string, wanted: ReadonlySet<string>): string[] {
  const removed: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    if (wanted.has(path) || !/\.(parquet|tmp)$/.test(entry.name)) continue;
    rmSync(path, { force: true });
    removed.push(path);
  }
  return removed;
}

/**
 * Delays the removal of files without a manifest row, because running queries may still read them. Bounded in size: evicted files must not
 * take as much space as kept ones. What a crash leaves is removed at the next start.
 */
export class DelayedUnlinks {
  readonly #delayMs: number;
  readonly #maxBytes: number;
  /** Oldest first. */
  readonly #waiting = new Map<string, { timer: NodeJS.Timeout; sizeBytes: number }>();
  #waitingBytes = 0;

  constructor(delayMs: number, maxBytes: number) {
    this.#delayMs = delayMs;
    this.#maxBytes = maxBytes;
  }

  add(file: string): void {
    const timer = setTimeout(() => this.#remove(file), this.#delayMs);
    timer.unref();
    const sizeBytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
    this.#waiting.set(file, { timer, sizeBytes });
    this.#waitingBytes += sizeBytes;
    for (const oldest of this.#waiting.keys()) {
      if (this.#waitingBytes <= this.#maxBytes) return;
      this.#remove(oldest);
    }
  }

  /** Removes all of them at once: on a full disk, and at shutdown. */
  flush(): void {
    for (const file of this.#waiting.keys()) this.#remove(file);
  }

  #remove(file: string): void {
    const waiting = this.#waiting.get(file);
    if (waiting === undefined) return;
    clearTimeout(waiting.timer);
    this.#waiting.delete(file);
    this.#waitingBytes -= waiting.sizeBytes;
    rmSync(file, { force: true });
  }
}

/** Share of the size limit for files that wait for removal. */
export const delayedUnlinkShare = 0.1;

const pieceBytes = 1024 * 1024;

/** The bytes of a stored segment from an offset on, in pieces of 1 MiB. `not-found` if the file is gone or disappears meanwhile. */
export async function* readSegmentFile(
  located: { path: string; sizeBytes: number } | undefined,
  wanted: { signal: string; number: number; offsetBytes: number },
): AsyncGenerator<Uint8Array, void, undefined> {
  const gone = (cause?: unknown): CoralError =>
    new CoralError({
      code: "not-found",
      message: `Cannot read segment ${wanted.number} of "${wanted.signal}": it was removed; list again`,
      cause,
    });
  if (located === undefined) throw gone();
  const handle = await open(located.path, "r").catch((error: unknown) => {
    throw gone(error);
  });
  try {
    for (let at = wanted.offsetBytes; at < located.sizeBytes; ) {
      const piece = Buffer.allocUnsafe(Math.min(pieceBytes, located.sizeBytes - at));
      const { bytesRead } = await handle.read(piece, 0, piece.length, at);
      if (bytesRead === 0) throw gone();
      at += bytesRead;
      yield piece.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
