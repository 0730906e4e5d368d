/**
 * Lines that are written to a file, from where it was left, across rotation (the file is renamed and a new one begun) and truncation (it is
 * copied and emptied: what was not read by then is in the copy). A line is given once its end was written, or when nothing follows for some seconds.
 */

import { constants, type Stats } from "node:fs";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { LineSplitter, type SplitLine } from "./line-splitter.ts";

/** Where reading goes on after a restart. */
export interface TailPosition {
  device: number;
  inode: number;
  /** After the last line that was given. */
  offsetBytes: number;
  /** The first bytes of the file in hex: inodes are used again. */
  head: string;
  /** The bytes before the offset in hex: a copy of the file has them, too. Absent or empty: not known. */
  last?: string;
}

export interface FileTailOptions {
  path: string;
  /** Undefined: it was never read. */
  position: TailPosition | undefined;
  /** Of a file that was never read; otherwise only what is written from now on. */
  fromStart: boolean;
  /** Default 64 KiB. */
  maxLineBytes?: number;
  /** Further behind than this, the older half is passed over. Default 64 MiB. */
  maxLagBytes?: number;
}

export interface FileTailCounts {
  lines: number;
  cutLines: number;
  binaryLines: number;
  rotations: number;
  truncations: number;
  /** Passed over because they came faster than they may be read. */
  skippedBytes: number;
}

const headBytes = 64;
/** Bytes before the offset that tell a copy of the file from other files that begin the same. */
const lastBytes = 128;
/** With fewer a copy cannot be recognised. */
const lastMinBytes = 16;
/** Of the files beside, the newest. */
const maxCopies = 10;
const partialWaitMs = 5_000;
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
  splitter: LineSplitter;
  changedAtMs: number;
  /** Since when another file has its name; undefined while it has it. */
  rotatedAtMs: number | undefined;
}

export class FileTail {
  readonly #options: Required<FileTailOptions>;
  #open: OpenFile | undefined;
  #position: TailPosition | undefined;
  #isFirst = true;
  readonly counts: FileTailCounts = { lines: 0, cutLines: 0, binaryLines: 0, rotations: 0, truncations: 0, skippedBytes: 0 };

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

  /** The next lines, of at most so many bytes; none when there are none. Throws what the file system says, such as EACCES; ENOENT is no failure. */
  async read(maxBytes: number, nowMs: number): Promise<SplitLine[]> {
    this.#open ??= await this.#find(nowMs);
    let file = this.#open;
    if (file === undefined) return [];
    if (await wasEmptied(file)) file = await this.#restart(file, nowMs);
    const { size } = await file.handle.stat();
    if (size - file.readBytes > this.#options.maxLagBytes) this.#skip(file, size);
    const chunk = await readAt(file.handle, file.readBytes, Math.min(maxBytes, size - file.readBytes));
    if (chunk.length === 0) return this.#count(file, await this.#idle(file, nowMs));
    file.readBytes += chunk.length;
    file.last = Buffer.from(Buffer.concat([file.last, chunk.subarray(-lastBytes)]).subarray(-lastBytes));
    file.changedAtMs = nowMs;
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
    this.counts.lines += lines.length;
    this.counts.cutLines += file.splitter.cutLines;
    this.counts.binaryLines += file.splitter.binaryLines;
    file.splitter.cutLines = 0;
    file.splitter.binaryLines = 0;
    return lines;
  }

  /** Nothing new: perhaps it is another file by now, or its last line has no end. */
  async #idle(file: OpenFile, nowMs: number): Promise<SplitLine[]> {
    const named = await statOf(this.#options.path);
    if (named !== undefined && (named.ino !== file.inode || named.dev !== file.device)) {
      file.rotatedAtMs ??= nowMs;
      if (nowMs - file.rotatedAtMs < rotationWaitMs) return [];
      const lines = file.splitter.flush();
      this.counts.rotations++;
      this.#open = undefined;
      this.#position = { device: named.dev, inode: named.ino, offsetBytes: 0, head: "" };
      await file.handle.close();
      return lines;
    }
    file.rotatedAtMs = undefined;
    return file.splitter.pendingBytes > 0 && nowMs - file.changedAtMs >= partialWaitMs ? file.splitter.flush() : [];
  }

  /** The file to go on with: the copy that was made before this one was emptied, then this one from its beginning. */
  async #restart(file: OpenFile, nowMs: number): Promise<OpenFile> {
    this.counts.truncations++;
    const { device, inode, readBytes, head, last, splitter } = file;
    const position = { device, inode, offsetBytes: readBytes, head: head.toString("hex"), last: last.toString("hex") };
    const copy = await this.#findCopy(position, nowMs);
    if (copy !== undefined) {
      copy.splitter = splitter;
      await file.handle.close();
      this.#open = copy;
      return copy;
    }
    Object.assign(file, { readBytes: 0, head: Buffer.alloc(0), last: Buffer.alloc(0), splitter: this.#splitter(false) });
    return file;
  }

  #skip(file: OpenFile, sizeBytes: number): void {
    const nextBytes = sizeBytes - Math.floor(this.#options.maxLagBytes / 2);
    this.counts.skippedBytes += nextBytes - file.readBytes;
    file.readBytes = nextBytes;
    file.last = Buffer.alloc(0);
    file.splitter = this.#splitter(true);
  }

  #splitter(startsInside: boolean): LineSplitter {
    return new LineSplitter({ maxLineBytes: this.#options.maxLineBytes, startsInside });
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

  /** The file that has the name, where it is to be read from; or the one of the position, when that is another by now. */
  async #choose(file: OpenFile | undefined, isFirst: boolean, nowMs: number): Promise<OpenFile | undefined> {
    const position = this.#position;
    if (position === undefined) {
      if (file !== undefined && isFirst && !this.#options.fromStart) await this.#toEnd(file);
      return file;
    }
    if (file !== undefined && (await resume(file, position))) return file;
    return (await this.#findMoved(position, nowMs)) ?? (await this.#findCopy(position, nowMs)) ?? file;
  }

  /** Only what is written from now on; when that begins inside of a line, after it. */
  async #toEnd(file: OpenFile): Promise<void> {
    const { size } = await file.handle.stat();
    file.readBytes = size;
    file.head = await readAt(file.handle, 0, Math.min(headBytes, size));
    file.last = await readAt(file.handle, Math.max(0, size - lastBytes), Math.min(lastBytes, size));
    file.splitter = this.#splitter(size > 0 && file.last.at(-1) !== 0x0a);
  }

  /** The file of a position under another name, as rotation leaves it. */
  async #findMoved(position: TailPosition, nowMs: number): Promise<OpenFile | undefined> {
    for (const path of await pathsBeside(this.#options.path)) {
      const found = await statOf(path);
      if (found?.ino !== position.inode || found.dev !== position.device) continue;
      const file = await this.#openIf(path, nowMs, (opened) => resume(opened, position));
      if (file !== undefined) return file;
    }
    return undefined;
  }

  /** A copy of what the file of a position was before it was emptied, as `copytruncate` of logrotate leaves it; it stands at the position. */
  async #findCopy(position: TailPosition, nowMs: number): Promise<OpenFile | undefined> {
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
      const isCopy = async (opened: OpenFile): Promise<boolean> => (await standAt(opened, position)) && opened.last.length >= lastMinBytes;
      const file = await this.#openIf(each.path, nowMs, isCopy);
      if (file !== undefined) return file;
    }
    return undefined;
  }

  /** A file beside the one to read. When that may not be read it is passed over: the one that has the name is worth more than what came before it. */
  async #openIf(path: string, nowMs: number, isRight: (file: OpenFile) => Promise<boolean>): Promise<OpenFile | undefined> {
    const file = await this.#openAt(path, nowMs).catch(() => undefined);
    if (file !== undefined && (await isRight(file).catch(() => false))) return file;
    await file?.handle.close();
    return undefined;
  }

  async #openAt(path: string, nowMs: number): Promise<OpenFile | undefined> {
    let handle: FileHandle;
    try {
      // Without it a named pipe would be waited for.
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
      };
      return { handle, device: facts.dev, inode: facts.ino, ...start };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }
}

/** Whether the file is the one of the position, and now stands there. */
async function resume(file: OpenFile, position: TailPosition): Promise<boolean> {
  return file.device === position.device && file.inode === position.inode && (await standAt(file, position));
}

/** Whether the file has what the position says; then it is there now. */
async function standAt(file: OpenFile, { offsetBytes, head, last = "" }: TailPosition): Promise<boolean> {
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

async function wasEmptied({ handle, readBytes, head }: OpenFile): Promise<boolean> {
  const { size } = await handle.stat();
  return size < readBytes || (head.length > 0 && !(await readAt(handle, 0, head.length)).equals(head));
}

/** What lies in the folder of a file, itself included. */
async function pathsBeside(path: string): Promise<string[]> {
  const names = await readdir(dirname(path)).catch(() => []); // no folder, no file: the same as not found
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
