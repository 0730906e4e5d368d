/**
 * A write-ahead file: bodies as they were received, appended before they are acknowledged, until their segment is stored. Ack after the write
 * returned survives the end of this process; what a power loss costs is bounded by `sync`.
 *
 * File: 8 bytes magic, then records of length (4), CRC-32 (4), kind (2), zero (2), rows (4), received (8) and the body, little-endian. The CRC
 * covers what follows it.
 */

import { close, closeSync, fdatasync, fstatSync, ftruncateSync, openSync, readFileSync, readSync, writeSync, writev } from "node:fs";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { scratchBytes } from "./scratch-bytes.ts";

const writeBuffers = promisify(writev);
const syncData = promisify(fdatasync);
const closeFile = promisify(close);

const magic = Buffer.from("coralwa1");
const headerBytes = 24;
/** Buffers in one system call (IOV_MAX is 1,024, two per record). */
const maxRecordsPerWrite = 512;

export interface WriteAheadRecord {
  /** What the body is, 0 to 65,535; whoever appends and whoever decodes agree on it. */
  kind: number;
  /** Rows that the body is thought to hold, for the decision to cut; 0 when unknown. */
  rows: number;
  /** Wall time of its arrival, microseconds since 1970. */
  receivedUs: number;
  /** Not copied: must not change until the append resolved. */
  body: Uint8Array;
}

/** Appends records, those that wait in one write. The owner bounds what waits. */
export class WriteAheadFile {
  readonly file: string;
  readonly #descriptor: number;
  #endBytes: number;
  #waiting: { record: WriteAheadRecord; resolve: () => void; reject: (error: unknown) => void }[] = [];
  #writing: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  /** Makes the file, which must not be there yet. */
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

  /** Resolves when the kernel has the record; rejects when it has nothing of it, such as on a full disk. */
  append(record: WriteAheadRecord): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ record, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** What was appended reaches the disk. */
  async sync(): Promise<void> {
    if (!this.#closed) await syncData(this.#descriptor);
  }

  /** Writes what waits first. */
  close(): Promise<void> {
    this.#closed ??= (async () => {
      while (this.#writing) await this.#writing;
      await closeFile(this.#descriptor);
    })();
    return this.#closed;
  }

  /** Never rejects: each failure goes to the records it belongs to. */
  async #write(): Promise<void> {
    // A turn later, so that the requests of one turn share a write.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, maxRecordsPerWrite);
      const buffers = group.flatMap(({ record }) => [headerOf(record), record.body]);
      try {
        await this.#writeAll(buffers);
        for (const { resolve } of group) resolve();
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.#writing = undefined;
  }

  async #writeAll(buffers: Uint8Array[]): Promise<void> {
    const sizeBytes = buffers.reduce((total, { length }) => total + length, 0);
    let left = buffers.filter(({ length }) => length > 0);
    let at = this.#endBytes;
    try {
      while (left.length > 0) {
        const { bytesWritten } = await writeBuffers(this.#descriptor, left, at);
        at += bytesWritten;
        left = withoutFirst(left, bytesWritten);
      }
    } catch (error) {
      // Records that were refused must not be found again behind a shorter one.
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

function headerOf({ kind, rows, receivedUs, body }: WriteAheadRecord): Uint8Array {
  const header = Buffer.allocUnsafe(headerBytes);
  header.writeUInt32LE(body.length, 0);
  header.writeUInt16LE(kind, 8);
  header.writeUInt16LE(0, 10);
  header.writeUInt32LE(Math.min(0xffff_ffff, Math.max(0, rows)), 12);
  header.writeDoubleLE(receivedUs, 16);
  header.writeUInt32LE(crc32(body, crc32(header.subarray(8))), 4);
  return header;
}

export interface WriteAheadContent {
  /** In order of their append. Bodies are parts of one buffer. */
  records: WriteAheadRecord[];
  /** At the end, of a record that was not finished or is damaged; nothing after it can be read. */
  unreadBytes: number;
}

/** The content in memory that is used again: good until `scratchBytes` is called. */
function readIntoScratch(file: string): Buffer {
  const descriptor = openSync(file, "r");
  try {
    const { size } = fstatSync(descriptor);
    const bytes = Buffer.from(scratchBytes(size), 0, size);
    let end = 0;
    while (end < size) {
      const count = readSync(descriptor, bytes, end, size - end, end);
      if (count === 0) break;
      end += count;
    }
    return bytes.subarray(0, end);
  } finally {
    closeSync(descriptor);
  }
}

/** All whole records. A torn end is what a crash leaves: it was not acknowledged. With `isPassing`, bodies are good until `scratchBytes` is called. */
export function readWriteAhead(file: string, { isPassing = false } = {}): WriteAheadContent {
  const data = isPassing ? readIntoScratch(file) : readFileSync(file);
  const records: WriteAheadRecord[] = [];
  if (!data.subarray(0, magic.length).equals(magic)) return { records, unreadBytes: data.length };
  let at = magic.length;
  while (at + headerBytes <= data.length) {
    const end = at + headerBytes + data.readUInt32LE(at);
    if (end > data.length || crc32(data.subarray(at + 8, end)) !== data.readUInt32LE(at + 4)) break;
    records.push({
      kind: data.readUInt16LE(at + 8),
      rows: data.readUInt32LE(at + 12),
      receivedUs: data.readDoubleLE(at + 16),
      body: data.subarray(at + headerBytes, end),
    });
    at = end;
  }
  return { records, unreadBytes: data.length - at };
}
