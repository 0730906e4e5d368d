/**
 * Lines that are written to a file, from where it was left, across rotation (the file is renamed and a new one begun) and truncation (it is
 * copied and emptied). A line is given once its end was written, or when nothing follows for some seconds.
 */

import { constants } from "node:fs";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { LineSplitter, type SplitLine } from "./line-splitter.ts";

/** Where reading goes on after a restart. */
export interface TailPosition {
  device: number;
  inode: number;
  /** After the last line that was given. */
  offsetBytes: number;
  /** The first bytes of the file in hex: inodes are used again. */
  head: string;
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
const partialWaitMs = 5_000;
/** Writers may still have the old file open for a moment. */
const rotationWaitMs = 2_000;

interface OpenFile {
  handle: FileHandle;
  device: number;
  inode: number;
  readBytes: number;
  head: Buffer;
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
    const { device, inode, readBytes, splitter, head } = file;
    return { device, inode, offsetBytes: readBytes - splitter.pendingBytes, head: head.toString("hex") };
  }

  /** The next lines, of at most so many bytes; none when there are none. Throws what the file system says, such as EACCES; ENOENT is no failure. */
  async read(maxBytes: number, nowMs: number): Promise<SplitLine[]> {
    this.#open ??= await this.#find(nowMs);
    const file = this.#open;
    if (file === undefined) return [];
    const { size } = await file.handle.stat();
    if (size < file.readBytes || !(await hasHead(file))) this.#restart(file);
    if (size - file.readBytes > this.#options.maxLagBytes) this.#skip(file, size);
    const chunk = await readAt(file.handle, file.readBytes, Math.min(maxBytes, size - file.readBytes));
    if (chunk.length === 0) return this.#count(file, await this.#idle(file, nowMs));
    file.readBytes += chunk.length;
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

  #restart(file: OpenFile): void {
    this.counts.truncations++;
    file.readBytes = 0;
    file.head = Buffer.alloc(0);
    file.splitter = this.#splitter(false);
  }

  #skip(file: OpenFile, sizeBytes: number): void {
    const nextBytes = sizeBytes - Math.floor(this.#options.maxLagBytes / 2);
    this.counts.skippedBytes += nextBytes - file.readBytes;
    file.readBytes = nextBytes;
    file.splitter = this.#splitter(true);
  }

  #splitter(startsInside: boolean): LineSplitter {
    return new LineSplitter({ maxLineBytes: this.#options.maxLineBytes, startsInside });
  }

  async #find(nowMs: number): Promise<OpenFile | undefined> {
    const { path, fromStart } = this.#options;
    const position = this.#position;
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    const file = await this.#openAt(path, nowMs);
    if (position === undefined) {
      if (file !== undefined && isFirst && !fromStart) await this.#toEnd(file);
      return file;
    }
    if (file !== undefined && (await resume(file, position))) return file;
    const moved = await this.#findMoved(position, nowMs);
    if (moved !== undefined) {
      await file?.handle.close();
      return moved;
    }
    return file;
  }

  /** Only what is written from now on; when that begins inside of a line, after it. */
  async #toEnd(file: OpenFile): Promise<void> {
    const { size } = await file.handle.stat();
    file.readBytes = size;
    file.head = await readAt(file.handle, 0, Math.min(headBytes, size));
    const last = size === 0 ? undefined : (await readAt(file.handle, size - 1, 1))[0];
    file.splitter = this.#splitter(last !== undefined && last !== 0x0a);
  }

  /** The file of a position under another name, as rotation leaves it. */
  async #findMoved(position: TailPosition, nowMs: number): Promise<OpenFile | undefined> {
    const directory = dirname(this.#options.path);
    const names = await readdir(directory).catch(() => []); // no folder, no file: the same as not found
    for (const name of names.slice(0, 1_000)) {
      const path = join(directory, name);
      const found = await statOf(path);
      if (found?.ino !== position.inode || found.dev !== position.device) continue;
      const file = await this.#openAt(path, nowMs);
      if (file !== undefined && (await resume(file, position))) return file;
      await file?.handle.close();
    }
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
    const facts = await handle.stat();
    if (!facts.isFile()) {
      await handle.close();
      throw Object.assign(new Error(`${path} is no regular file`), { code: "EINVAL" });
    }
    const start = { readBytes: 0, head: Buffer.alloc(0), splitter: this.#splitter(false), changedAtMs: nowMs, rotatedAtMs: undefined };
    return { handle, device: facts.dev, inode: facts.ino, ...start };
  }
}

/** Whether the file is the one of the position, and now stands there. */
async function resume(file: OpenFile, { device, inode, offsetBytes, head }: TailPosition): Promise<boolean> {
  const { size } = await file.handle.stat();
  if (file.device !== device || file.inode !== inode || size < offsetBytes) return false;
  const expected = Buffer.from(head, "hex");
  const found = await readAt(file.handle, 0, expected.length);
  if (!found.equals(expected)) return false;
  file.readBytes = offsetBytes;
  file.head = found;
  return true;
}

async function hasHead({ handle, head }: OpenFile): Promise<boolean> {
  return head.length === 0 || (await readAt(handle, 0, head.length)).equals(head);
}

async function readAt(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  if (length <= 0) return Buffer.alloc(0);
  const buffer = Buffer.allocUnsafe(length);
  const { bytesRead } = await handle.read(buffer, 0, length, position);
  return buffer.subarray(0, bytesRead);
}

async function statOf(path: string): Promise<{ ino: number; dev: number } | undefined> {
  try {
    return await stat(path);
  } catch {
    // Gone or not to be seen: whoever opens it says which.
    return undefined;
  }
}
