import { describe, expect, it } from "vitest";
import { createBpfMap } from "./bpf-map.ts";
import type { Libbpf } from "./libbpf.ts";

const ENOENT = 2;
const ENOSPC = 28;
const EINVAL = 22;

interface FakeOptions {
  /** A batch must hold at least this many entries, like a full hash bucket. */
  bucketEntries?: number;
  hasBatches?: boolean;
}

/** A map of u32 to u64 that behaves like the kernel's. */
function fakeMap(entries: readonly [number, bigint][], { bucketEntries = 1, hasBatches = true }: FakeOptions = {}) {
  const content = new Map(entries);
  const batch =
    (isTaken: boolean) =>
    (_fd: number, position: Buffer | null, next: Buffer, keys: Buffer, values: Buffer, count: Buffer): number => {
      if (!hasBatches) return -EINVAL;
      const room = count.readUInt32LE();
      count.writeUInt32LE(0);
      if (room < bucketEntries) return -ENOSPC;
      const all = [...content];
      const from = position === null || isTaken ? 0 : position.readUInt32LE();
      const part = all.slice(from, from + room);
      for (const [index, [key, value]] of part.entries()) {
        keys.writeUInt32LE(key, index * 4);
        values.writeBigUInt64LE(value, index * 8);
        if (isTaken) content.delete(key);
      }
      count.writeUInt32LE(part.length);
      next.writeUInt32LE(from + part.length);
      return from + part.length >= all.length ? -ENOENT : 0;
    };
  const libbpf = {
    possibleCpus: () => 4,
    mapLookupBatch: batch(false),
    mapLookupAndDeleteBatch: batch(true),
    mapNextKey: (_fd: number, key: Buffer | null, next: Buffer) => {
      const keys = [...content.keys()];
      const found = keys[key === null ? 0 : keys.indexOf(key.readUInt32LE()) + 1];
      if (found === undefined) return -ENOENT;
      next.writeUInt32LE(found);
      return 0;
    },
    mapLookup: (_fd: number, key: Buffer, value: Buffer) => {
      const found = content.get(key.readUInt32LE());
      if (found === undefined) return -ENOENT;
      value.writeBigUInt64LE(found);
      return 0;
    },
    mapDelete: (_fd: number, key: Buffer) => (content.delete(key.readUInt32LE()) ? 0 : -ENOENT),
  } as unknown as Libbpf;
  const map = createBpfMap(libbpf, { name: "fake", fd: 3, type: 1, keyBytes: 4, valueBytes: 8, maxEntries: 100_000 });
  return { map, content, libbpf };
}

const many = Array.from({ length: 50_000 }, (_, index): [number, bigint] => [index, BigInt(index) * 7n]);

describe("BpfMap", () => {
  for (const [name, options] of [
    ["by batches", {}],
    ["by batches that must grow", { bucketEntries: 40_000 }],
    ["key by key", { hasBatches: false }],
  ] as const) {
    it(`reads and takes every entry once, ${name}`, () => {
      const { map, content } = fakeMap(many.slice(0, options.hasBatches === false ? 300 : many.length), options);
      const expected = new Map(content);
      const read = new Map<number, bigint>();
      expect(map.readAll((keys, keyAt, values, valueAt) => read.set(keys.readUInt32LE(keyAt), values.readBigUInt64LE(valueAt)))).toBe(
        expected.size,
      );
      expect(read).toEqual(expected);
      const taken = new Map<number, bigint>();
      map.takeAll((keys, keyAt, values, valueAt) => taken.set(keys.readUInt32LE(keyAt), values.readBigUInt64LE(valueAt)));
      expect(taken).toEqual(expected);
      expect(content.size).toBe(0);
      expect(map.readAll(() => undefined)).toBe(0);
    });
  }

  it("returns the values of all processors", () => {
    const { libbpf } = fakeMap([]);
    const description = { name: "percpu", fd: 3, keyBytes: 4, valueBytes: 12, maxEntries: 1 };
    expect(createBpfMap(libbpf, { ...description, type: 6 }).valueBytes).toBe(64);
    expect(createBpfMap(libbpf, { ...description, type: 2 }).valueBytes).toBe(12);
  });

  it("rejects a buffer that is too short", () => {
    const { map } = fakeMap([]);
    expect(() => map.lookup(Buffer.alloc(4), Buffer.alloc(7))).toThrow("a buffer is shorter");
    expect(() => map.delete(Buffer.alloc(3))).toThrow("a buffer is shorter");
  });
});
