import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { createRingReader, type RingBuffer } from "./ring-buffer.ts";

const pageBytes = 4096;

/** The kernel's side of a ring, over ordinary memory. */
function fakeRing(sizeBytes: number, startAt = 0n) {
  const consumer = new ArrayBuffer(pageBytes);
  const producer = new ArrayBuffer(pageBytes + sizeBytes);
  const consumerAt = new BigInt64Array(consumer, 0, 1);
  const producerAt = new BigInt64Array(producer, 0, 1);
  consumerAt[0] = startAt;
  producerAt[0] = startAt;
  const data = Buffer.from(producer, pageBytes);
  let unmapped = 0;
  const ring: RingBuffer = createRingReader({ consumer, producer, pageBytes }, () => unmapped++);
  /** False if the ring is full, as in the kernel. */
  const write = (payload: Buffer, flags = 0): boolean => {
    const at = Number(producerAt[0]);
    const length = (payload.length + 15) & ~7;
    if (at + length - Number(consumerAt[0]) > sizeBytes) return false;
    const record = Buffer.alloc(length);
    record.writeUInt32LE((payload.length | flags) >>> 0, 0);
    payload.copy(record, 8);
    for (const [index, byte] of record.entries()) {
      data[(at + index) % sizeBytes] = byte;
    }
    producerAt[0] = BigInt(at + length);
    return true;
  };
  const clearBusy = (at: number): void => {
    data.writeUInt32LE((data.readUInt32LE(at) & 0x7fff_ffff) >>> 0, at);
  };
  return { ring, write, clearBusy, consumerAt, unmappedCount: () => unmapped };
}

function drain(ring: RingBuffer, limits = {}): string[] {
  const found: string[] = [];
  ring.drain((view, offset, length, bytes) => {
    expect(view.getUint8(offset)).toBe(bytes[offset]);
    found.push(bytes.toString("latin1", offset, offset + length));
  }, limits);
  return found;
}

describe("RingBuffer", () => {
  it("reads records of any size in order, across the wrap-around", () => {
    const { ring, write } = fakeRing(512);
    const random = new SeededRandom(11);
    const written: string[] = [];
    const read: string[] = [];
    for (let index = 0; index < 3000; index++) {
      const text = String.fromCharCode(97 + (index % 26)).repeat(1 + random.below(90));
      while (!write(Buffer.from(text))) read.push(...drain(ring, { maxRecords: 1 + random.below(5) }));
      written.push(text);
    }
    read.push(...drain(ring));
    expect(read).toEqual(written);
    expect(ring.pendingBytes()).toBe(0);
  });

  it("skips discarded records, and stops at one that is still being written", () => {
    const { ring, write, clearBusy } = fakeRing(512);
    write(Buffer.from("one"));
    write(Buffer.from("gone"), 0x4000_0000);
    write(Buffer.from("busy"), 0x8000_0000);
    write(Buffer.from("last"));
    expect(drain(ring)).toEqual(["one"]);
    expect(ring.pendingBytes()).toBe(32);
    clearBusy(32);
    expect(drain(ring)).toEqual(["busy", "last"]);
  });

  it("stops at its limits, and frees what was read", () => {
    const { ring, write, consumerAt } = fakeRing(65_536);
    for (let index = 0; index < 1000; index++) write(Buffer.from("12345678"));
    expect(drain(ring, { maxRecords: 3 })).toHaveLength(3);
    expect(consumerAt[0]).toBe(48n);
    expect(drain(ring, { maxMs: -1 })).toHaveLength(64);
    expect(drain(ring)).toHaveLength(1000 - 67);
  });

  it("frees a record whose visitor throws", () => {
    const { ring, write } = fakeRing(512);
    write(Buffer.from("bad"));
    write(Buffer.from("good"));
    expect(() =>
      ring.drain(() => {
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(drain(ring)).toEqual(["good"]);
  });

  it("continues past four gigabytes", () => {
    const { ring, write } = fakeRing(4096, 2n ** 33n - 64n);
    const texts = Array.from({ length: 9 }, (_, index) => `record ${index}`);
    for (const text of texts) expect(write(Buffer.from(text))).toBe(true);
    expect(drain(ring)).toEqual(texts);
  });

  it("is unmapped once, and silent afterwards", () => {
    const { ring, write, unmappedCount } = fakeRing(512);
    write(Buffer.from("late"));
    ring[Symbol.dispose]();
    ring[Symbol.dispose]();
    expect(unmappedCount()).toBe(1);
    expect(drain(ring)).toEqual([]);
    expect(ring.pendingBytes()).toBe(0);
  });
});
