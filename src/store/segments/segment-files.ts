/** Names and lifecycle of segment files. The name identifies the content, so that a folder can be reconciled with the manifest. */

import { closeSync, constants, fsyncSync, mkdirSync, openSync, readdirSync, readSync, renameSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { handOver, inDirectory } from "../../base/open-owned.ts";
import type { SegmentEntry } from "./segment-manifest.ts";

/** Padded so that names sort as numbers do. */
const padded = (number: number): string => String(number).padStart(9, "0");

/** Agent and epoch in one folder name; agents' ids have no tilde. Empty at an agent. */
export function sourceFolder({ agentId, epoch }: Pick<SegmentEntry, "agentId" | "epoch">): string {
  return agentId === "" ? "" : `${agentId}~${epoch}`;
}

type Named = Pick<SegmentEntry, "agentId" | "epoch" | "signal" | "firstNumber" | "number">;

/** Below the folder of segments. */
export function segmentPath(root: string, entry: Named): string {
  const { firstNumber, number } = entry;
  const name = firstNumber === number ? padded(number) : `${padded(firstNumber)}-${padded(number)}`;
  return join(root, entry.signal, sourceFolder(entry), `${name}.parquet`);
}

export function writeAheadPath(root: string, signal: string, number: number): string {
  return join(root, signal, `${padded(number)}.wal`);
}

/** Of a write-ahead file's name; undefined for other files. */
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
 * Under sudo, data belong to the user whose folder they are in, so that a start without sudo can read them. A no-op unless root. Links are not
 * followed, and a file with a second name is skipped: the owner of the folder must not be given files from elsewhere.
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

/** Durable: the new name is on disk when this returns. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  giveToFolderOwner(to);
  syncFolder(dirname(to));
}

/** New names in it are on disk when this returns. */
export function syncFolder(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Why a file cannot be a complete segment of that size, judged by its first and last bytes; undefined if it looks valid. */
export function damageOf(file: string, sizeBytes: number): string | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return "it is not there";
  if (stat.size !== sizeBytes) return `it has ${stat.size} bytes instead of ${sizeBytes}`;
  const descriptor = openSync(file, "r");
  try {
    const ends = Buffer.alloc(8);
    readSync(descriptor, ends, 0, 4, 0);
    readSync(descriptor, ends, 4, 4, sizeBytes - 4);
    return ends.toString("latin1") === "PAR1PAR1" ? undefined : "it does not begin and end like a segment";
  } finally {
    closeSync(descriptor);
  }
}

const maxDamagedKept = 3;

/** Keeps damaged files for inspection, at most three per folder. */
export function moveAside(file: string, log: Logger, reason: string): void {
  const movedTo = `${file}.damaged`;
  try {
    renameSync(file, movedTo);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  log.error("a damaged file was moved aside", { file, movedTo, reason });
  const folder = dirname(file);
  const kept = readdirSync(folder).filter((name) => name.endsWith(".damaged"));
  for (const name of kept.sort().slice(0, -maxDamagedKept)) rmSync(join(folder, name), { force: true });
}

/** Removes the files of `folder` that are neither referenced nor kept on purpose: temporary ones, and segments without a manifest row. */
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
 * Files without a manifest row stay for a while, for queries planned with them, as long as they are small: what retention evicts must not take as much space as
 * what it keeps. Leftovers are removed at the next start.
 */
export class LateUnlinks {
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

  /** Removes all of them now: on a full disk, and at shutdown. */
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

/** Share of the segment budget for files that only wait to be removed. */
export const lateUnlinkShare = 0.1;

const pieceBytes = 1024 * 1024;

/** Bytes of a stored segment from an offset on, in pieces of 1 MiB. `not-found` when it is gone, or goes meanwhile. */
export async function* readSegmentFile(
  located: { path: string; sizeBytes: number } | undefined,
  wanted: { signal: string; number: number; offsetBytes: number },
): AsyncGenerator<Uint8Array, void, undefined> {
  const gone = (cause?: unknown): CoralError =>
    new CoralError({
      code: "not-found",
      message: `Cannot read segment ${wanted.number} of "${wanted.signal}": it is not there any more; list again`,
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
