/** A BPF ring buffer, mapped into this process and read in place: no system call and no copy per record. */

import { CoralError } from "../base/errors.ts";
import type { BpfMap } from "./bpf-map.ts";
import type { Libbpf } from "./libbpf.ts";

/** One record: `length` bytes from `offset` on, the same memory as a view and as bytes. Valid during the call only. */
export type RecordVisitor = (view: DataView, offset: number, length: number, bytes: Buffer) => void;

export interface DrainLimits {
  /** Default no limit. */
  maxRecords?: number;
  /** Checked every 64 records. Default no limit. */
  maxMs?: number;
}

export interface RingBuffer extends Disposable {
  readonly sizeBytes: number;
  /** Unread bytes, including headers. */
  pendingBytes(): number;
  /** Visits records in order and frees them; returns their number. A record whose visitor throws is freed, too. */
  drain(visit: RecordVisitor, limits?: DrainLimits): number;
}

const headerBytes = 8;
const busyBit = 0x8000_0000;
const discardBit = 0x4000_0000;
const lengthMask = 0x3fff_ffff;
/** How many records between updates of the read position and checks of the clock. */
const groupRecords = 64;

/** The two positions and the records, in the kernel's layout; separate from the mapping, so that it can be tested without one. */
export interface RingMemory {
  /** First page: the read position. */
  consumer: ArrayBuffer;
  pageBytes: number;
  /** One page with the kernel's write position, then the records. */
  producer: ArrayBuffer;
}

/** Maps the ring of a loaded map. Throws `unavailable` if the kernel refuses. */
export function openRingBuffer(libbpf: Libbpf, map: BpfMap): RingBuffer {
  const pageBytes = libbpf.pageBytes();
  const consumer = libbpf.mmap(map.fd, pageBytes, 0, true);
  // The kernel can map the records twice in a row, so that none wraps. The second mapping would count as memory of this process.
  const producer = consumer && libbpf.mmap(map.fd, pageBytes + map.maxEntries, pageBytes, false);
  if (consumer === null || producer === null) {
    const errno = libbpf.errno();
    if (consumer !== null) libbpf.munmap(consumer);
    throw new CoralError({ code: "unavailable", message: `Cannot map ring buffer "${map.name}": errno ${errno}`, details: { errno } });
  }
  return createRingReader({ consumer, producer, pageBytes }, () => {
    libbpf.munmap(producer);
    libbpf.munmap(consumer);
  });
}

/** `unmap` is called once, at the end. */
export function createRingReader(memory: RingMemory, unmap: () => void): RingBuffer {
  return new MappedRing(memory, unmap);
}

class MappedRing implements RingBuffer {
  readonly sizeBytes: number;
  readonly #consumerAt: BigInt64Array;
  readonly #producerAt: BigInt64Array;
  readonly #consumerLow: Int32Array;
  readonly #producerLow: Int32Array;
  readonly #headers: Int32Array;
  readonly #view: DataView;
  readonly #bytes: Buffer;
  readonly #unmap: () => void;
  /** A copy of the last record that wrapped; allocated at the first one. */
  #joined: Buffer | undefined;
  #isClosed = false;

  constructor({ consumer, producer, pageBytes }: RingMemory, unmap: () => void) {
    this.sizeBytes = producer.byteLength - pageBytes;
    this.#consumerAt = new BigInt64Array(consumer, 0, 1);
    this.#producerAt = new BigInt64Array(producer, 0, 1);
    this.#consumerLow = new Int32Array(consumer, 0, 1);
    this.#producerLow = new Int32Array(producer, 0, 1);
    this.#headers = new Int32Array(producer, pageBytes);
    this.#view = new DataView(producer, pageBytes);
    this.#bytes = Buffer.from(producer, pageBytes);
    this.#unmap = unmap;
  }

  /** Called often on an idle host, so without BigInt: the low halves differ by at most the ring's size. */
  pendingBytes(): number {
    return this.#isClosed ? 0 : (Atomics.load(this.#producerLow, 0) - Atomics.load(this.#consumerLow, 0)) >>> 0;
  }

  drain(visit: RecordVisitor, { maxRecords = Number.POSITIVE_INFINITY, maxMs = Number.POSITIVE_INFINITY }: DrainLimits = {}): number {
    if (this.#isClosed) return 0;
    const mask = this.sizeBytes - 1;
    const deadlineMs = performance.now() + maxMs;
    let at = Number(Atomics.load(this.#consumerAt, 0));
    let visited = 0;
    let end = Number(Atomics.load(this.#producerAt, 0));
    try {
      while (visited < maxRecords) {
        if (at >= end) {
          end = Number(Atomics.load(this.#producerAt, 0));
          if (at >= end) break;
        }
        const offset = at & mask;
        // An acquire read that pairs with the kernel's release: the record after the header is complete.
        const header = Atomics.load(this.#headers, offset >> 2);
        if ((header & busyBit) !== 0) break;
        const length = header & lengthMask;
        at += (length + headerBytes + 7) & ~7;
        if ((header & discardBit) !== 0) continue;
        visited++;
        if (offset + headerBytes + length <= this.sizeBytes) visit(this.#view, offset + headerBytes, length, this.#bytes);
        else this.#visitBroken(visit, offset + headerBytes, length);
        if (visited % groupRecords !== 0) continue;
        Atomics.store(this.#consumerAt, 0, BigInt(at));
        if (performance.now() >= deadlineMs) break;
      }
    } finally {
      Atomics.store(this.#consumerAt, 0, BigInt(at));
    }
    return visited;
  }

  /** A header never wraps: records start at multiples of 8. */
  #visitBroken(visit: RecordVisitor, offset: number, length: number): void {
    if (this.#joined === undefined || this.#joined.length < length) this.#joined = Buffer.from(new ArrayBuffer(length * 2));
    const joined = this.#joined;
    const first = Math.max(0, this.sizeBytes - offset);
    if (first > 0) this.#bytes.copy(joined, 0, offset, this.sizeBytes);
    this.#bytes.copy(joined, first, offset + first - this.sizeBytes, offset + length - this.sizeBytes);
    visit(new DataView(joined.buffer, joined.byteOffset, joined.length), 0, length, joined);
  }

  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#unmap();
  }
}
