/**
 * A write-ahead file. Bodies are appended as received before they are acknowledged, and stay until their segment is stored. An acknowledged
 * body survives the end of this process; `sync` bounds what a power loss costs. Format: 8 bytes magic, then records of length (4), CRC-32
 * (4), kind (2), zero (2), rows (4), received (8) and the body, little-endian. The CRC covers all fields after it.
 */

import { close, closeSync, fdatasync, fstatSync, ftruncateSync, openSync, readFileSync, readSync, writeSync, writev } from "node:fs";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { scratchBytes } from "./parquet/scratch-bytes.ts";

const writeBuffers = promisify(writev);
const syncData = promisify(fdatasync);
const closeFile = promisify(close);

const magic = Buffer.from("coralwa1");
const headerBytes = 24;
/** Records per system call. IOV_MAX is 1,024 buffers, and a record needs up to two. */
const maxRecordsPerWrite = 512;
/** Bodies up to this size are copied next to their headers: an additional buffer in a write costs more than the copy. */
const maxCopiedBytes = 4 * 1024;

export interface WriteAheadRecord {
  /** The type of the body, 0 to 65,535, as agreed between appender and decoder. */
  kind: number;
  /** Estimated row count of the body, used to decide when to cut; 0 if unknown. */
  rows: number;
  /** Wall time of arrival, microseconds since 1970. */
  receivedUs: number;
  /** Not copied: must not change until the append has resolved. */
  body: Uint8Array;
}

/** Records written together; they succeed or fail together. */
interface Group {
  records: WriteAheadRecord[];
  written: Promise<void>;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** Appends records. Concurrent appends share one write. The owner bounds the queue. */
export class WriteAheadFile {
  readonly file: string;
  readonly #descriptor: number;
  #endBytes: number;
  #waiting: Group[] = [];
  /** Buffer for headers and small bodies of the current write. At most 2 MiB. */
  #block = Buffer.alloc(0);
  #writing: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  /** Creates the file, which must not exist yet. */
  constructor(file: string) {
    this.file = file;
    this.#descriptor = openSync(file, "wx", 0o600);
    try {
      writeSync(this.#descriptor, magic, 0, magic.length, 0);
    } catch (error) {
      closeSync(this.#descriptor);
      throw error;
    }
    this.#endBytes = magic.length;
  }

  /** Resolves when the kernel has the whole record. Rejects when it has nothing of it, such as on a full disk. */
  append(record: WriteAheadRecord): Promise<void> {
    let group = this.#waiting.at(-1);
    if (group === undefined || group.records.length >= maxRecordsPerWrite) this.#waiting.push((group = newGroup()));
    group.records.push(record);
    this.#writing ??= this.#write();
    return group.written;
  }

  /** Resolves when appended records are on disk. */
  async sync(): Promise<void> {
    if (!this.#closed) await syncData(this.#descriptor);
  }

  /** Writes queued records first. */
  close(): Promise<void> {
    this.#closed ??= (async () => {
      while (this.#writing) await this.#writing;
      await closeFile(this.#descriptor);
    })();
    return this.#closed;
  }

  /** Never rejects: each failure is reported to the records of that write. */
  async #write(): Promise<void> {
    // Waits one tick, so that requests of the same tick share a write.
    await new Promise((resolve) => setImmediate(resolve));
    for (let group = this.#waiting.shift(); group !== undefined; group = this.#waiting.shift()) {
      try {
        await this.#writeAll(this.#gather(group.records));
        group.resolve();
      } catch (error) {
        group.reject(error);
      }
    }
    this.#writing = undefined;
  }

  #gather(records: readonly WriteAheadRecord[]): Uint8Array[] {
    const sizeBytes = records.reduce((sum, { body }) => sum + headerBytes + (isCopied(body) ? body.length : 0), 0);
    if (this.#block.length < sizeBytes) this.#block = Buffer.allocUnsafeSlow(2 * sizeBytes);
    const block = this.#block;
    const buffers: Uint8Array[] = [];
    let start = 0;
    let at = 0;
    for (const record of records) {
      at = putRecord(block, at, record);
      if (isCopied(record.body)) continue;
      buffers.push(block.subarray(start, at), record.body);
      start = at;
    }
    if (at > start) buffers.push(block.subarray(start, at));
    return buffers;
  }

  async #writeAll(buffers: Uint8Array[]): Promise<void> {
    const sizeBytes = buffers.reduce((total, { length }) => total + length, 0);
    let left = buffers;
    let at = this.#endBytes;
    try {
      while (left.length > 0) {
        const { bytesWritten } = await writeBuffers(this.#descriptor, left, at);
        at += bytesWritten;
        left = withoutFirst(left, bytesWritten);
      }
    } catch (error) {
      // Truncates: rejected records must not reappear behind a shorter one.
      ftruncateSync(this.#descriptor, this.#endBytes);
      throw error;
    }
    this.#endBytes += sizeBytes;
  }
}

function withoutFirst(buffers: readonly Uint8Array[], count: number): Uint8Array[] {
  const left: Uint8Array[] = [];
  let rest = count;
  for (const buffer of buffers) {
    if (rest < buffer.length) left.push(buffer.subarray(rest));
    rest = Math.max(0, rest - buffer.length);
  }
  return left;
}

function newGroup(): Group {
  let settle: Pick<Group, "resolve" | "reject"> | undefined;
  const written = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject };
  });
  if (settle === undefined) throw new Error("a promise calls its executor at once");
  return { records: [], written, ...settle };
}

function isCopied(body: Uint8Array): boolean {
  return body.length <= maxCopiedBytes;
}

/** Copies the header, and a small body. Returns the end offset. */
function putRecord(block: Buffer, at: number, { kind, rows, receivedUs, body }: WriteAheadRecord): number {
  const headerEnd = at + headerBytes;
  block.writeUInt32LE(body.length, at);
  block.writeUInt16LE(kind, at + 8);
  block.writeUInt16LE(0, at + 10);
  block.writeUInt32LE(Math.min(0xffff_ffff, Math.max(0, rows)), at + 12);
  block.writeDoubleLE(receivedUs, at + 16);
  if (!isCopied(body)) {
    block.writeUInt32LE(crc32(body, crc32(block.subarray(at + 8, headerEnd))), at + 4);
    return headerEnd;
  }
  block.set(body, headerEnd);
  const end = headerEnd + body.length;
  block.writeUInt32LE(crc32(block.subarray(at + 8, end)), at + 4);
  return end;
}

export interface WriteAheadContent {
  /** In append order. Bodies are views into one buffer. */
  records: WriteAheadRecord[];
  /** Bytes at the end that belong to an incomplete or damaged record. Nothing after it can be read. */
  unreadBytes: number;
  /** Rows of that record, if its header is readable; at least 1 when bytes are unread. */
  tornRows: number;
}

/** Reads all complete records. A torn end is left by a crash; it was never acknowledged. */
export function readWriteAhead(file: string): WriteAheadContent {
  const data = readFileSync(file);
  const records: WriteAheadRecord[] = [];
  if (!isWriteAhead(data)) return { records, unreadBytes: data.length, tornRows: data.length > magic.length ? 1 : 0 };
  let at = magic.length;
  for (let end = recordEnd(data, at); end > 0; end = recordEnd(data, at)) {
    records.push(recordIn(data, at, end));
    at = end;
  }
  return { records, unreadBytes: data.length - at, tornRows: tornRowsAt(data, at) };
}

/** Bodies with more rows are never accepted, so a larger number comes from a damaged header. */
const maxTornRows = 1_000_000;

function tornRowsAt(data: Buffer, at: number): number {
  if (at === data.length) return 0;
  const rows = at + headerBytes <= data.length ? data.readUInt32LE(at + 12) : 0;
  return rows > maxTornRows ? 1 : Math.max(1, rows);
}

/** Large enough for most records, small enough to stay in the CPU cache until they are decoded. */
const windowBytes = 512 * 1024;

/**
 * Yields the same records one by one without loading the whole file. Each is valid until the next one is read, or `scratchBytes` is used.
 */
export function* streamWriteAhead(file: string): Generator<WriteAheadRecord, void, undefined> {
  const descriptor = openSync(file, "r");
  try {
    const { size } = fstatSync(descriptor);
    const window = Buffer.from(scratchBytes(windowBytes), 0, windowBytes);
    let data = window.subarray(0, readFully(descriptor, window, 0));
    let readBytes = data.length;
    if (!isWriteAhead(data)) return;
    for (let at = magic.length; ; ) {
      const end = recordEnd(data, at);
      if (end > 0) {
        yield recordIn(data, at, end);
        at = end;
        continue;
      }
      const wanted = data.length - at >= headerBytes ? headerBytes + data.readUInt32LE(at) : headerBytes;
      // The last record is incomplete or damaged.
      if (wanted <= data.length - at || wanted - (data.length - at) > size - readBytes) return;
      const rest = data.subarray(at);
      const sizeBytes = Math.max(windowBytes, wanted);
      const next = Buffer.from(scratchBytes(sizeBytes), 0, sizeBytes);
      // Usually within the same buffer: the rest moves to its start.
      next.set(rest);
      const more = readFully(descriptor, next.subarray(rest.length), readBytes);
      if (more === 0) return;
      readBytes += more;
      data = next.subarray(0, rest.length + more);
      at = 0;
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Reads as much as is available and fits. Returns the number of bytes. */
function readFully(descriptor: number, target: Uint8Array, position: number): number {
  let end = 0;
  while (end < target.length) {
    const count = readSync(descriptor, target, end, target.length - end, position + end);
    if (count === 0) break;
    end += count;
  }
  return end;
}

function isWriteAhead(data: Buffer): boolean {
  return data.subarray(0, magic.length).equals(magic);
}

/** End of the record at `at`; 0 if it is incomplete or damaged. */
function recordEnd(data: Buffer, at: number): number {
  if (at + headerBytes > data.length) return 0;
  const end = at + headerBytes + data.readUInt32LE(at);
  return end > data.length || crc32(data.subarray(at + 8, end)) !== data.readUInt32LE(at + 4) ? 0 : end;
}

function recordIn(data: Buffer, at: number, end: number): WriteAheadRecord {
  return {
    kind: data.readUInt16LE(at + 8),
    rows: data.readUInt32LE(at + 12),
    receivedUs: data.readDoubleLE(at + 16),
    body: data.subarray(at + headerBytes, end),
  };
}
