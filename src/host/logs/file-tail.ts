/**
 * Follows a file line by line from a saved position, across rotation (renamed, and a new file created) and truncation (copied, then truncated: unread
 * lines are in the copy). Both may happen several times between two reads. A line is emitted once it is terminated, or after five seconds without
 * more bytes. A line that may start a stack trace is emitted when the next record starts, or after a second.
 */

import { constants, type Stats } from "node:fs";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { isPacked, isRotatedName } from "./expand-paths.ts";
import type { SplitLine } from "./line-splitter.ts";
import { RecordSplitter } from "./record-splitter.ts";

/** Where reading resumes after a restart. */
export interface TailPosition {
  device: number;
  inode: number;
  /** After the last returned line. */
  offsetBytes: number;
  /** The first bytes of the file in hex, because inodes are reused. */
  head: string;
  /** The bytes before the offset in hex, to recognise a copy of the file. Absent or empty: unknown. */
  last?: string;
}

export interface FileTailOptions {
  path: string;
  /** Undefined: the file was never read. */
  position: TailPosition | undefined;
  /** Read a new file from its beginning; otherwise only lines written from now on. */
  fromStart: boolean;
  /** If the file appeared after this time (milliseconds since 1970) and was never read, its rotated parts are read first. */
  appearedAfterMs?: number;
  /** Default 64 KiB. */
  maxLineBytes?: number;
  /** When further behind than this, the older half is skipped. Default 64 MiB. */
  maxLagBytes?: number;
}

export interface FileTailCounts {
  lines: number;
  cutLines: number;
  binaryLines: number;
  rotations: number;
  truncations: number;
  /** Skipped because the file grows faster than it may be read. */
  skippedBytes: number;
  /** Rotated files that were compressed before they could be read. */
  packedFiles: number;
}

const headBytes = 64;
/** Bytes before the offset that distinguish a copy of the file from others with the same beginning. */
const lastBytes = 128;
/** With fewer bytes a copy cannot be recognised. */
const lastMinBytes = 16;
/** Number of neighbouring files to search, newest first. */
const maxCopies = 10;
/** Identities of files read to their end. */
const maxRead = 100;
/** Bytes of a file and its copy that are compared. */
const sampleBytes = 4_096;
/** How long to wait for the end of a line. */
const partialWaitMs = 5_000;
/** How long to wait for more lines of a record that may be a stack trace. */
const recordWaitMs = 1_000;
/** Writers may still have the old file open for a moment. */
const rotationWaitMs = 2_000;

interface OpenFile {
  handle: FileHandle;
  device: number;
  inode: number;
  readBytes: number;
  head: Buffer;
  /** Up to `readBytes`. */
  last: Buffer;
  splitter: RecordSplitter;
  changedAtMs: number;
  /** Rotated files next to it when it was opened, by device and inode; undefined once enough was read to recognise a copy. */
  besideAtStart: ReadonlySet<string> | undefined;
  /** When another file replaced it under its name; undefined while it still has the name. */
  rotatedAtMs: number | undefined;
}

export class FileTail {
  readonly #options: Required<Omit<FileTailOptions, "appearedAfterMs">> & Pick<FileTailOptions, "appearedAfterMs">;
  #open: OpenFile | undefined;
  #position: TailPosition | undefined;
  #isFirst = true;
  /** Files that were read to their end, by device and inode. */
  readonly #read = new Set<string>();
  /** Pending records of a file that reading has left. */
  #released: SplitLine[] = [];
  readonly counts: FileTailCounts = {
    lines: 0,
    cutLines: 0,
    binaryLines: 0,
    rotations: 0,
    truncations: 0,
    skippedBytes: 0,
    packedFiles: 0,
  };

  constructor(options: FileTailOptions) {
    this.#options = { maxLineBytes: 64 * 1024, maxLagBytes: 64 * 1024 ** 2, ...options };
    this.#position = options.position;
  }

  get position(): TailPosition | undefined {
    const file = this.#open;
    if (file === undefined) return this.#position;
    const { device, inode, readBytes, splitter, head, last } = file;
    const { pendingBytes } = splitter;
    const given = last.subarray(0, Math.max(0, last.length - pendingBytes));
    return { device, inode, offsetBytes: readBytes - pendingBytes, head: head.toString("hex"), last: given.toString("hex") };
  }

  /** The next lines, up to this many bytes. Throws file system errors such as EACCES, but not ENOENT. */
  async read(maxBytes: number, nowMs: number): Promise<SplitLine[]> {
    this.#open ??= await this.#find(nowMs);
    let file = this.#open;
    if (file === undefined) return [];
    if (await wasEmptied(file)) file = await this.#restart(file, nowMs);
    else file = await this.#checkShort(file, nowMs);
    const { size } = await file.handle.stat();
    if (size - file.readBytes > this.#options.maxLagBytes) this.#skip(file, size);
    const chunk = await readAt(file.handle, file.readBytes, Math.min(maxBytes, size - file.readBytes));
    if (chunk.length === 0) return this.#count(file, await this.#idle(file, nowMs));
    file.readBytes += chunk.length;
    file.last = Buffer.from(Buffer.concat([file.last, chunk.subarray(-lastBytes)]).subarray(-lastBytes));
    file.changedAtMs = nowMs;
    if (file.readBytes >= lastMinBytes) file.besideAtStart = undefined;
    if (file.head.length < headBytes) file.head = await readAt(file.handle, 0, Math.min(headBytes, file.readBytes));
    return this.#count(file, file.splitter.push(chunk));
  }

  async close(): Promise<void> {
    this.#position = this.position;
    const file = this.#open;
    this.#open = undefined;
    await file?.handle.close();
  }

  #count(file: OpenFile, lines: SplitLine[]): SplitLine[] {
    const records = [...this.#released.splice(0), ...lines];
    const { cutLines, binaryLines } = file.splitter.takeCounts();
    this.counts.lines += records.length;
    this.counts.cutLines += cutLines;
    this.counts.binaryLines += binaryLines;
    return records;
  }

  /** No new bytes: the file may have been replaced, or its last line is incomplete. */
  async #idle(file: OpenFile, nowMs: number): Promise<SplitLine[]> {
    const named = await statOf(this.#options.path);
    if (named !== undefined && (named.ino !== file.inode || named.dev !== file.device)) {
      file.rotatedAtMs ??= nowMs;
      if (nowMs - file.rotatedAtMs < rotationWaitMs) return [];
      const lines = file.splitter.flush();
      this.counts.rotations++;
      const { mtimeMs } = await file.handle.stat();
      const next = (await this.#nextAfter(file, mtimeMs)) ?? named;
      this.#open = undefined;
      this.#position = { device: next.dev, inode: next.ino, offsetBytes: 0, head: "" };
      await file.handle.close();
      return lines;
    }
    file.rotatedAtMs = undefined;
    const waitMs = file.splitter.isInsideLine ? partialWaitMs : recordWaitMs;
    return file.splitter.pendingBytes > 0 && nowMs - file.changedAtMs >= waitMs ? file.splitter.flush() : [];
  }

  /**
   * After several rotations between two reads, returns the oldest rotated file that was written after this one. Rotation keeps the time of the last
   * write. Counts compressed files, and skips copies of this file.
   */
  async #nextAfter(file: OpenFile, mtimeMs: number): Promise<Stats | undefined> {
    this.#keepRead(file);
    const isLater = (facts: Stats): boolean => facts.mtimeMs >= mtimeMs && !this.#read.has(identityOf(facts));
    for (const { path, facts } of await this.#rotatedBeside(isLater)) {
      if (isPacked(path)) {
        this.counts.packedFiles++;
        continue;
      }
      const opened = await this.#openAt(path, 0).catch(() => undefined); // not readable: skipped
      const isCopy = opened === undefined || (await seekTo(opened, positionIn(file)).catch(() => true));
      await opened?.handle.close();
      if (!isCopy || file.readBytes === 0) return facts;
    }
    return undefined;
  }

  /** Remembers files that were read, because another file with the same mtime must not be confused with them. */
  #keepRead({ device, inode }: OpenFile): void {
    this.#read.add(`${device}:${inode}`);
    const [oldest] = this.#read;
    if (this.#read.size > maxRead && oldest !== undefined) this.#read.delete(oldest);
  }

  /** Rotated files, oldest write first. */
  async #rotatedBeside(isWanted: (facts: Stats) => boolean): Promise<{ path: string; facts: Stats }[]> {
    const { path } = this.#options;
    const found: { path: string; facts: Stats }[] = [];
    for (const beside of await pathsBeside(path)) {
      const facts = isRotatedName(path, beside) ? await statOf(beside) : undefined;
      if (facts?.isFile() && facts.size > 0 && isWanted(facts)) found.push({ path: beside, facts });
    }
    // File times may have a resolution of only 10 ms. With equal times, the file with the higher number is older.
    return found.sort((one, other) => one.facts.mtimeMs - other.facts.mtimeMs || numberOf(other.path) - numberOf(one.path));
  }

  /** If too little was read of a file to notice its truncation, a new copy next to it reveals it. */
  async #checkShort(file: OpenFile, nowMs: number): Promise<OpenFile> {
    if (file.besideAtStart === undefined || file.readBytes >= lastMinBytes) return file;
    const copy = await this.#findCopy(positionIn(file), nowMs, file.besideAtStart);
    if (copy === undefined) return file;
    const sample = await readAt(copy.handle, 0, sampleBytes);
    if ((await readAt(file.handle, 0, sample.length)).equals(sample)) {
      // Copied, but not truncated.
      file.besideAtStart = await this.#identitiesBeside();
      await copy.handle.close();
      return file;
    }
    this.counts.truncations++;
    return await this.#replace(file, copy);
  }

  async #replace(file: OpenFile, by: OpenFile): Promise<OpenFile> {
    by.splitter = file.splitter;
    await file.handle.close();
    this.#open = by;
    return by;
  }

  /** The next file to read: the copy made before truncation, then this file from its beginning. */
  async #restart(file: OpenFile, nowMs: number): Promise<OpenFile> {
    this.counts.truncations++;
    const copy = await this.#findCopy(positionIn(file), nowMs, file.besideAtStart);
    if (copy !== undefined) return await this.#replace(file, copy);
    this.#released.push(...file.splitter.flush());
    Object.assign(file, {
      readBytes: 0,
      head: Buffer.alloc(0),
      last: Buffer.alloc(0),
      splitter: this.#splitter(false),
      besideAtStart: await this.#identitiesBeside(),
    });
    return file;
  }

  #skip(file: OpenFile, sizeBytes: number): void {
    const nextBytes = sizeBytes - Math.floor(this.#options.maxLagBytes / 2);
    this.counts.skippedBytes += nextBytes - file.readBytes;
    file.readBytes = nextBytes;
    file.last = Buffer.alloc(0);
    this.#released.push(...file.splitter.flush());
    file.splitter = this.#splitter(true);
  }

  async #identitiesBeside(): Promise<Set<string>> {
    return new Set((await this.#rotatedBeside(() => true)).map(({ facts }) => identityOf(facts)));
  }

  #splitter(startsInside: boolean): RecordSplitter {
    return new RecordSplitter({ maxLineBytes: this.#options.maxLineBytes, startsInside });
  }

  async #find(nowMs: number): Promise<OpenFile | undefined> {
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    const file = await this.#openAt(this.#options.path, nowMs);
    try {
      const chosen = await this.#choose(file, isFirst, nowMs);
      if (chosen !== file) await file?.handle.close();
      return chosen;
    } catch (error) {
      await file?.handle.close();
      throw error;
    }
  }

  /** The file at the path, at its start position; or the saved position's file, if that was renamed. */
  async #choose(file: OpenFile | undefined, isFirst: boolean, nowMs: number): Promise<OpenFile | undefined> {
    const position = this.#position;
    if (position === undefined) {
      if (file !== undefined && isFirst && !this.#options.fromStart) await this.#toEnd(file);
      return (isFirst ? await this.#findEarlier(nowMs) : undefined) ?? file;
    }
    if (file !== undefined && (await resume(file, position))) return file;
    return (await this.#findMoved(position, nowMs)) ?? (await this.#findCopy(position, nowMs)) ?? file;
  }

  /** The oldest rotated part of a file that appeared recently. */
  async #findEarlier(nowMs: number): Promise<OpenFile | undefined> {
    const { appearedAfterMs } = this.#options;
    if (appearedAfterMs === undefined) return undefined;
    // Not every file system records the time of creation.
    const isNew = ({ birthtimeMs, ctimeMs, mtimeMs }: Stats): boolean => Math.min(birthtimeMs || ctimeMs, mtimeMs) > appearedAfterMs;
    for (const { path } of await this.#rotatedBeside(isNew)) {
      const file = isPacked(path) ? undefined : await this.#openIf(path, nowMs, async () => true);
      if (file !== undefined) return file;
      this.counts.packedFiles++;
    }
    return undefined;
  }

  /** Starts at the end; if that is inside a line, after that line. */
  async #toEnd(file: OpenFile): Promise<void> {
    const { size } = await file.handle.stat();
    file.readBytes = size;
    file.head = await readAt(file.handle, 0, Math.min(headBytes, size));
    file.last = await readAt(file.handle, Math.max(0, size - lastBytes), Math.min(lastBytes, size));
    file.splitter = this.#splitter(size > 0 && file.last.at(-1) !== 0x0a);
  }

  /** The file of a position under its rotated name. */
  async #findMoved(position: TailPosition, nowMs: number): Promise<OpenFile | undefined> {
    for (const path of await pathsBeside(this.#options.path)) {
      const found = await statOf(path);
      if (found?.ino !== position.inode || found.dev !== position.device) continue;
      const file = await this.#openIf(path, nowMs, (opened) => resume(opened, position));
      if (file !== undefined) return file;
    }
    return undefined;
  }

  /** The copy of a truncated file, as `copytruncate` of logrotate leaves it, opened at the position. */
  async #findCopy(position: TailPosition, nowMs: number, besideBefore?: ReadonlySet<string>): Promise<OpenFile | undefined> {
    const { path } = this.#options;
    const stem = basename(path, extname(path));
    const found: { path: string; mtimeMs: number }[] = [];
    for (const beside of await pathsBeside(path)) {
      if (beside === path || !basename(beside).startsWith(stem)) continue;
      const facts = await statOf(beside);
      if (facts?.isFile() && facts.ino !== position.inode && facts.size > position.offsetBytes)
        found.push({ path: beside, mtimeMs: facts.mtimeMs });
    }
    found.sort((one, other) => other.mtimeMs - one.mtimeMs);
    for (const each of found.slice(0, maxCopies)) {
      // Too little to compare: accept only a rotated file that is new.
      const isNew = (opened: OpenFile): boolean =>
        besideBefore !== undefined && isRotatedName(path, each.path) && !besideBefore.has(`${opened.device}:${opened.inode}`);
      const isCopy = async (opened: OpenFile): Promise<boolean> =>
        !isPacked(each.path) && (await seekTo(opened, position)) && (opened.last.length >= lastMinBytes || isNew(opened));
      const file = await this.#openIf(each.path, nowMs, isCopy);
      if (file !== undefined) return file;
    }
    return undefined;
  }

  /** A neighbouring file. An unreadable one is skipped: following the current file matters more than the rest of the old one. */
  async #openIf(path: string, nowMs: number, isRight: (file: OpenFile) => Promise<boolean>): Promise<OpenFile | undefined> {
    const file = await this.#openAt(path, nowMs).catch(() => undefined);
    if (file !== undefined && (await isRight(file).catch(() => false))) return file;
    await file?.handle.close();
    return undefined;
  }

  async #openAt(path: string, nowMs: number): Promise<OpenFile | undefined> {
    let handle: FileHandle;
    try {
      // Without O_NONBLOCK, opening a named pipe would block.
      handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
    try {
      const facts = await handle.stat();
      if (!facts.isFile()) throw Object.assign(new Error(`${path} is not a regular file`), { code: "EINVAL" });
      const start = {
        readBytes: 0,
        head: Buffer.alloc(0),
        last: Buffer.alloc(0),
        splitter: this.#splitter(false),
        changedAtMs: nowMs,
        rotatedAtMs: undefined,
        besideAtStart: path === this.#options.path ? await this.#identitiesBeside() : undefined,
      };
      return { handle, device: facts.dev, inode: facts.ino, ...start };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }
}

/** Whether this is the position's file; if so, seeks to the position. */
async function resume(file: OpenFile, position: TailPosition): Promise<boolean> {
  return file.device === position.device && file.inode === position.inode && (await seekTo(file, position));
}

/** Whether the file's bytes match the position; if so, seeks to it. */
async function seekTo(file: OpenFile, { offsetBytes, head, last = "" }: TailPosition): Promise<boolean> {
  const { size } = await file.handle.stat();
  if (size < offsetBytes) return false;
  const expected = Buffer.from(head, "hex");
  const found = await readAt(file.handle, 0, expected.length);
  if (!found.equals(expected)) return false;
  const before = Buffer.from(last, "hex");
  if (!(await readAt(file.handle, offsetBytes - before.length, before.length)).equals(before)) return false;
  Object.assign(file, { readBytes: offsetBytes, head: found, last: before });
  return true;
}

/** The position after everything that was read, including incomplete records. */
function positionIn({ device, inode, readBytes, head, last }: OpenFile): TailPosition {
  return { device, inode, offsetBytes: readBytes, head: head.toString("hex"), last: last.toString("hex") };
}

/** 2 for `app.log.2` and `app.log.2.gz`; 0 without a number. */
function numberOf(path: string): number {
  return Number(/\.(\d{1,3})(?:\.[a-z0-9]+)?$/i.exec(path)?.[1] ?? 0);
}

function identityOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

async function wasEmptied({ handle, readBytes, head }: OpenFile): Promise<boolean> {
  const { size } = await handle.stat();
  return size < readBytes || (head.length > 0 && !(await readAt(handle, 0, head.length)).equals(head));
}

/** Entries of the file's directory, including itself. */
async function pathsBeside(path: string): Promise<string[]> {
  const names = await readdir(dirname(path)).catch(() => []); // no directory: the same as not found
  return names.slice(0, 1_000).map((name) => join(dirname(path), name));
}

async function readAt(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  if (length <= 0) return Buffer.alloc(0);
  const buffer = Buffer.allocUnsafe(length);
  const { bytesRead } = await handle.read(buffer, 0, length, position);
  return buffer.subarray(0, bytesRead);
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch {
    // Gone or not readable: opening it reports which.
    return undefined;
  }
}
