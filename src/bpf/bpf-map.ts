/** A map of a loaded object. All calls are short system calls on the caller's thread. */

import { CoralError } from "../base/errors.ts";
import type { Libbpf } from "./libbpf.ts";

/** Called for each entry with the buffers that hold it and its offsets in them. The buffers are reused. */
export type EntryVisitor = (keys: Buffer, keyAt: number, values: Buffer, valueAt: number) => void;

export interface BpfMap {
  readonly name: string;
  readonly fd: number;
  readonly keyBytes: number;
  /** Size of a lookup's result: in a per-CPU map, one value rounded up to 8 bytes for each possible CPU. */
  readonly valueBytes: number;
  readonly maxEntries: number;
  /** False if the key does not exist. */
  lookup(key: Buffer, value: Buffer): boolean;
  /** Throws `exhausted` when the map is full. */
  update(key: Buffer, value: Buffer): void;
  /** False if the key did not exist. */
  delete(key: Buffer): boolean;
  /** Visits all entries and returns their number. Entries that change meanwhile may be missed or visited twice. */
  readAll(visit: EntryVisitor): number;
  /** As `readAll`, but deletes each entry before it is visited: nothing is counted twice. */
  takeAll(visit: EntryVisitor): number;
}

// <asm-generic/errno.h>
const ENOENT = 2;
const E2BIG = 7;
const EINVAL = 22;
const ENOSPC = 28;
const EOPNOTSUPP = 95;
const ENOTSUPP = 524;

/** <linux/bpf.h>, enum bpf_map_type: types with a value per CPU. */
const perCpuTypes: ReadonlySet<number> = new Set([5, 6, 10, 21]);
/** Total size of the two batch buffers; doubled for a hash bucket that does not fit. */
const batchBytes = 256 * 1024;
const maxBatchBytes = 16 * 1024 * 1024;

export interface MapDescription {
  name: string;
  fd: number;
  type: number;
  keyBytes: number;
  valueBytes: number;
  maxEntries: number;
}

interface Batch {
  entries: number;
  keys: Buffer;
  values: Buffer;
}

export function createBpfMap(libbpf: Libbpf, description: MapDescription): BpfMap {
  return new LoadedMap(libbpf, description);
}

class LoadedMap implements BpfMap {
  readonly name: string;
  readonly fd: number;
  readonly keyBytes: number;
  readonly valueBytes: number;
  readonly maxEntries: number;
  readonly #libbpf: Libbpf;
  readonly #count = Buffer.alloc(4);
  /** Positions of this batch and the next; as large as a key in maps that are walked by key. */
  #positions: [Buffer, Buffer];
  #batch: Batch | undefined;
  /** The kernel, or the map type, does not support batches. */
  #isWalked = false;

  constructor(libbpf: Libbpf, { name, fd, type, keyBytes, valueBytes, maxEntries }: MapDescription) {
    this.#libbpf = libbpf;
    this.name = name;
    this.fd = fd;
    this.keyBytes = keyBytes;
    this.valueBytes = perCpuTypes.has(type) ? Math.ceil(valueBytes / 8) * 8 * libbpf.possibleCpus() : valueBytes;
    this.maxEntries = maxEntries;
    const positionBytes = Math.max(8, keyBytes);
    this.#positions = [Buffer.alloc(positionBytes), Buffer.alloc(positionBytes)];
  }

  lookup(key: Buffer, value: Buffer): boolean {
    this.#check(key, value);
    const result = this.#libbpf.mapLookup(this.fd, key, value);
    if (result !== 0 && result !== -ENOENT) throw this.#failed("read", result);
    return result === 0;
  }

  update(key: Buffer, value: Buffer): void {
    this.#check(key, value);
    const result = this.#libbpf.mapUpdate(this.fd, key, value, 0);
    if (result !== 0) throw this.#failed("write", result);
  }

  delete(key: Buffer): boolean {
    this.#check(key);
    const result = this.#libbpf.mapDelete(this.fd, key);
    if (result !== 0 && result !== -ENOENT) throw this.#failed("delete from", result);
    return result === 0;
  }

  readAll(visit: EntryVisitor): number {
    return this.#isWalked ? this.#walk(visit, false) : this.#readBatches(visit, false);
  }

  takeAll(visit: EntryVisitor): number {
    return this.#isWalked ? this.#walk(visit, true) : this.#readBatches(visit, true);
  }

  #readBatches(visit: EntryVisitor, isTaken: boolean): number {
    const name = isTaken ? "mapLookupAndDeleteBatch" : "mapLookupBatch";
    let isFirst = true;
    let visited = 0;
    for (;;) {
      const batch = this.#batchOf(this.#batch?.entries ?? Math.max(1, Math.floor(batchBytes / (this.keyBytes + this.valueBytes))));
      this.#count.writeUInt32LE(batch.entries);
      const [position, next] = this.#positions;
      const result = this.#libbpf[name](this.fd, isFirst ? null : position, next, batch.keys, batch.values, this.#count);
      if (result === -ENOSPC && this.#grow(batch)) continue;
      if (isFirst && (result === -EINVAL || result === -EOPNOTSUPP || result === -ENOTSUPP)) {
        this.#isWalked = true;
        return this.#walk(visit, isTaken);
      }
      if (result !== 0 && result !== -ENOENT) throw this.#failed("read", result);
      const count = this.#count.readUInt32LE();
      for (let index = 0; index < count; index++) visit(batch.keys, index * this.keyBytes, batch.values, index * this.valueBytes);
      visited += count;
      if (result === -ENOENT) return visited;
      this.#positions = [next, position];
      isFirst = false;
    }
  }

  /** Kept for the next read: a map is read every few seconds. */
  #batchOf(entries: number): Batch {
    if (this.#batch?.entries !== entries) {
      this.#batch = { entries, keys: Buffer.alloc(entries * this.keyBytes), values: Buffer.alloc(entries * this.valueBytes) };
    }
    return this.#batch;
  }

  #grow({ entries }: Batch): boolean {
    if (entries * 2 * (this.keyBytes + this.valueBytes) > maxBatchBytes) return false;
    this.#batchOf(entries * 2);
    return true;
  }

  /** Walks by key. Reads the next key before an entry is deleted, since a deleted key leads back to the start. */
  #walk(visit: EntryVisitor, isTaken: boolean): number {
    let key = Buffer.alloc(this.keyBytes);
    let next = Buffer.alloc(this.keyBytes);
    const value = Buffer.alloc(this.valueBytes);
    let visited = 0;
    // A map that grows while it is read must not keep this loop running.
    let left = this.maxEntries * 2;
    let result = this.#libbpf.mapNextKey(this.fd, null, key);
    while (result === 0 && left-- > 0) {
      result = this.#libbpf.mapNextKey(this.fd, key, next);
      if (this.lookup(key, value) && (!isTaken || this.delete(key))) {
        visit(key, 0, value, 0);
        visited++;
      }
      [key, next] = [next, key];
    }
    if (result !== 0 && result !== -ENOENT) throw this.#failed("read", result);
    return visited;
  }

  /** The kernel would write past the end of a short buffer. */
  #check(key: Buffer, value?: Buffer): void {
    if (key.length >= this.keyBytes && (value === undefined || value.length >= this.valueBytes)) return;
    throw new CoralError({
      code: "internal",
      message: `Cannot use map "${this.name}": a buffer is shorter than its ${this.keyBytes} bytes of key or ${this.valueBytes} of value`,
    });
  }

  #failed(what: string, result: number): CoralError {
    return new CoralError({
      code: result === -E2BIG ? "exhausted" : "internal",
      message: `Cannot ${what} map "${this.name}": ${result === -E2BIG ? `it is full (${this.maxEntries} entries)` : `errno ${-result}`}`,
      details: { errno: -result },
    });
  }
}
