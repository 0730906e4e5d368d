import { describe, expect, it } from "vitest";
import { bucketOf, coarseLayout, fineLayout } from "../../base/latency-histogram.ts";
import type { BpfMap, EntryVisitor } from "../../bpf/index.ts";
import { controlsLayout } from "./kernel-controls.ts";
import {
  requestKeyLayout as keyLayout,
  learnRecordLayout,
  requestSlotLayout,
  slotUsed,
  requestStatsLayout as statsLayout,
  sweepLayout,
} from "./kernel-layout.ts";
import { KernelTable } from "./kernel-table.ts";

/** An in-memory BPF map with the methods that the table uses. */
class MemoryMap implements Pick<BpfMap, "maxEntries" | "readAll" | "lookup" | "update" | "delete"> {
  readonly maxEntries = 64;
  readonly entries = new Map<string, { key: Buffer; value: Buffer }>();

  set(key: Buffer, value: Buffer): void {
    this.entries.set(key.toString("hex"), { key, value });
  }

  readAll(visit: EntryVisitor): number {
    // Consecutive in one buffer, as in a batch.
    const all = [...this.entries.values()];
    const keys = Buffer.concat(all.map(({ key }) => key));
    const values = Buffer.concat(all.map(({ value }) => value));
    for (const [index, { key, value }] of all.entries()) visit(keys, index * key.length, values, index * value.length);
    return all.length;
  }

  lookup(key: Buffer, value: Buffer): boolean {
    const found = this.entries.get(key.toString("hex"));
    found?.value.copy(value);
    return found !== undefined;
  }

  update(key: Buffer, value: Buffer): void {
    this.set(Buffer.from(key), Buffer.from(value));
  }

  delete(key: Buffer): boolean {
    return this.entries.delete(key.toString("hex"));
  }
}

interface Request {
  durationNs: number;
  queueNs?: number;
  firstByteNs?: number;
}

class Kernel {
  readonly maps: Record<string, MemoryMap> = {
    requests: new MemoryMap(),
    other_requests: new MemoryMap(),
    request_slots: new MemoryMap(),
    losses: new MemoryMap(),
    learned: new MemoryMap(),
    controls: new MemoryMap(),
  };
  readonly table: KernelTable;
  swept: bigint[] = [];

  constructor() {
    const object = {
      map: (name: string) => this.maps[name] as unknown as BpfMap,
      run: (_program: string, context?: Buffer) => {
        this.swept.push(context?.readBigUInt64LE(sweepLayout.responded_before_ns) ?? 0n);
        context?.writeUInt32LE(3, sweepLayout.finished);
        return 0;
      },
    };
    this.table = new KernelTable({ object });
  }

  key(changes: Partial<Record<keyof typeof keyLayout, number>> = {}): Buffer {
    const key = Buffer.alloc(keyLayout.sizeBytes);
    key.writeBigUInt64LE(BigInt(changes.fingerprint ?? 42), keyLayout.fingerprint);
    Buffer.from("00000000000000000000ffff7f000001", "hex").copy(key, keyLayout.remote);
    key.writeUInt32LE(changes.tgid ?? 77, keyLayout.tgid);
    key.writeUInt32LE(changes.status ?? 200, keyLayout.status);
    key.writeUInt16LE(changes.server_port ?? 8080, keyLayout.server_port);
    key[keyLayout.role] = changes.role ?? 1;
    key[keyLayout.protocol] = changes.protocol ?? 1;
    key[keyLayout.method] = changes.method ?? 1;
    return key;
  }

  /** Adds to the totals, as the kernel does; these may wrap. */
  count(key: Buffer, { durationNs, queueNs, firstByteNs = durationNs }: Request, table = "requests"): void {
    const requests = this.maps[table];
    const value = requests?.entries.get(key.toString("hex"))?.value ?? Buffer.alloc(statsLayout.sizeBytes);
    const add64 = (at: number, by: number) => value.writeBigUInt64LE(BigInt.asUintN(64, value.readBigUInt64LE(at) + BigInt(by)), at);
    const add32 = (at: number) => value.writeUInt32LE((value.readUInt32LE(at) + 1) >>> 0, at);
    add64(statsLayout.duration_sum_ns, durationNs);
    add64(statsLayout.request_bytes, 100);
    add64(statsLayout.response_bytes, 1000);
    add32(statsLayout.duration + 4 * bucketOf(fineLayout, durationNs));
    add32(statsLayout.first_byte + 4 * bucketOf(coarseLayout, firstByteNs));
    if (queueNs !== undefined) {
      add64(statsLayout.queue_sum_ns, queueNs);
      add32(statsLayout.queue + 4 * bucketOf(coarseLayout, queueNs));
    }
    requests?.set(key, value);
  }

  /** Sets how many kinds did not fit. */
  overflow(total: bigint): void {
    this.maps["losses"]?.set(Buffer.from([1, 0, 0, 0]), Buffer.from(BigUint64Array.of(total).buffer));
  }

  learn(fingerprint: bigint, head: string): void {
    const record = Buffer.alloc(learnRecordLayout.sizeBytes + head.length);
    record[learnRecordLayout.protocol] = 1;
    record[learnRecordLayout.role] = 1;
    record.writeUInt16LE(head.length, learnRecordLayout.bytes);
    record.writeUInt16LE(8080, learnRecordLayout.server_port);
    record.writeUInt32LE(77, learnRecordLayout.tgid);
    record.writeBigUInt64LE(fingerprint, learnRecordLayout.fingerprint);
    record.write(head, learnRecordLayout.sizeBytes);
    this.table.onLearn(new DataView(record.buffer, record.byteOffset, record.length), 0, record.length, record);
  }
}

const second = 1_000_000_000n;

describe("KernelTable", () => {
  it("returns differences, not totals", () => {
    const kernel = new Kernel();
    kernel.learn(42n, "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    kernel.count(kernel.key(), { durationNs: 5000, queueNs: 2000, firstByteNs: 3000 });
    kernel.count(kernel.key(), { durationNs: 7000 });
    const first = kernel.table.collect(second);
    expect(first.requests).toMatchObject([
      {
        ...{ pid: 77, role: "server", protocol: "http", isTls: false, serverPort: 8080, peerAddress: "127.0.0.1" },
        ...{ method: "GET", route: "/a", status: "200", isError: false },
        ...{ count: 2, requestBytes: 200, responseBytes: 2000, durationSumNs: 12_000, queueSumNs: 2000, queueCount: 1 },
      },
    ]);
    expect(first.names).toEqual([{ pid: 77, port: 8080, source: "http_host", name: "shop.test", requests: 2 }]);
    expect(kernel.table.collect(2n * second).requests).toEqual([]);
    kernel.count(kernel.key(), { durationNs: 5000 });
    expect(kernel.table.collect(3n * second).requests).toMatchObject([
      { count: 1, durationSumNs: 5000, duration: { lo: bucketOf(fineLayout, 5000), counts: [1] } },
    ]);
  });

  it("returns exact differences when totals wrap", () => {
    const kernel = new Kernel();
    kernel.learn(42n, "GET /a HTTP/1.1\r\n\r\n");
    const key = kernel.key();
    const value = Buffer.alloc(statsLayout.sizeBytes);
    value.writeBigUInt64LE(2n ** 64n - 1000n, statsLayout.duration_sum_ns);
    value.writeUInt32LE(0xffff_ffff, statsLayout.duration + 4 * bucketOf(fineLayout, 5000));
    kernel.maps["requests"]?.set(key, value);
    kernel.table.collect(second);
    kernel.count(key, { durationNs: 5000 });
    expect(kernel.table.collect(2n * second).requests).toMatchObject([{ count: 1, durationSumNs: 5000 }]);
  });

  it("waits two windows for a name, then reports it as unknown", () => {
    const kernel = new Kernel();
    kernel.count(kernel.key(), { durationNs: 5000 });
    expect(kernel.table.collect(second).requests).toEqual([]);
    kernel.learn(42n, "GET /late HTTP/1.1\r\n\r\n");
    expect(kernel.table.collect(2n * second).requests).toMatchObject([{ route: "/late", count: 1 }]);
    kernel.count(kernel.key({ fingerprint: 43 }), { durationNs: 5000 });
    expect(kernel.table.collect(3n * second).requests).toEqual([]);
    expect(kernel.table.collect(4n * second).requests).toEqual([]);
    expect(kernel.table.collect(5n * second).requests).toMatchObject([{ method: "GET", route: "unknown", count: 1 }]);
  });

  it("names reserved kinds and statuses: other, unread, no-reply, SQLSTATE", () => {
    const kernel = new Kernel();
    kernel.count(kernel.key({ fingerprint: 0 }), { durationNs: 1 });
    kernel.count(kernel.key({ fingerprint: 1, protocol: 4, status: Number.parseInt("42P01", 36) }), { durationNs: 1 });
    kernel.count(kernel.key({ fingerprint: 1, protocol: 6, status: 1, role: 2 }), { durationNs: 1 });
    const { requests } = kernel.table.collect(second);
    expect(requests.map(({ role, route, status, isError }) => [role, route, status, isError])).toEqual([
      ["server", "other", "200", false],
      ["server", "unknown", "42P01", true],
      ["client", "unknown", "no-reply", true],
    ]);
  });

  it("separates kinds in slots from the same ones in the hash table, and frees idle slots", () => {
    const kernel = new Kernel();
    kernel.learn(42n, "GET /a HTTP/1.1\r\n\r\n");
    kernel.count(kernel.key(), { durationNs: 5000 });
    const stats = kernel.maps["requests"]?.entries.get(kernel.key().toString("hex"))?.value ?? Buffer.alloc(0);
    const slots = kernel.maps["request_slots"];
    const index = Buffer.from([3, 0, 0, 0]);
    const value = Buffer.concat([kernel.key(), stats, Buffer.from([slotUsed, 0, 0, 0, 0, 0, 0, 0])]);
    slots?.set(index, value);
    slots?.set(Buffer.from([4, 0, 0, 0]), Buffer.alloc(requestSlotLayout.sizeBytes));
    expect(kernel.table.collect(second).requests.map(({ route, count }) => [route, count])).toEqual([
      ["/a", 1],
      ["/a", 1],
    ]);
    expect(kernel.table.collect(2n * second).requests).toEqual([]);
    kernel.table.collect(63n * second);
    expect(slots?.entries.get(index.toString("hex"))?.value).toEqual(Buffer.alloc(requestSlotLayout.sizeBytes));
    expect(kernel.maps["requests"]?.entries.size).toBe(0);
  });

  it("separates kinds that did not fit from the same ones in the hash table, and deletes idle ones", () => {
    const kernel = new Kernel();
    const other = kernel.key({ fingerprint: 0, method: 0 });
    kernel.count(other, { durationNs: 5000 });
    kernel.count(other, { durationNs: 5000 }, "other_requests");
    kernel.count(other, { durationNs: 5000 }, "other_requests");
    // Once for the table of names and once for the table of kinds.
    kernel.maps["losses"]?.set(Buffer.from([1, 0, 0, 0]), Buffer.from([6, 0, 0, 0, 0, 0, 0, 0]));
    const { requests, losses } = kernel.table.collect(second);
    expect(requests.map(({ route, count }) => [route, count])).toEqual([
      ["other", 1],
      ["other", 2],
    ]);
    expect(losses.get("routes-full")).toBe(3);
    expect(kernel.table.collect(2n * second).losses.has("routes-full")).toBe(false);
    kernel.table.collect(63n * second);
    expect(kernel.maps["other_requests"]?.entries.size).toBe(0);
  });

  it("deletes kinds that are idle for one window when the table was full", () => {
    const kernel = new Kernel();
    for (const fingerprint of [42, 43]) {
      kernel.learn(BigInt(fingerprint), `GET /a${fingerprint} HTTP/1.1\r\n\r\n`);
      kernel.count(kernel.key({ fingerprint }), { durationNs: 5000 });
    }
    kernel.overflow(3n);
    kernel.table.collect(second);
    kernel.count(kernel.key({ fingerprint: 43 }), { durationNs: 5000 });
    expect(kernel.table.collect(11n * second).requests).toMatchObject([{ count: 1 }]);
    expect(kernel.maps["requests"]?.entries.size).toBe(1);
    kernel.table.collect(21n * second);
    expect(kernel.maps["requests"]?.entries.size).toBe(1);
  });

  it("deletes kinds that are idle for a minute", () => {
    const kernel = new Kernel();
    kernel.learn(42n, "GET /a HTTP/1.1\r\n\r\n");
    kernel.count(kernel.key(), { durationNs: 5000 });
    kernel.table.collect(second);
    kernel.table.collect(60n * second);
    expect(kernel.maps["requests"]?.entries.size).toBe(1);
    kernel.table.collect(62n * second);
    expect(kernel.maps["requests"]?.entries.size).toBe(0);
    kernel.count(kernel.key(), { durationNs: 5000 });
    expect(kernel.table.collect(63n * second).requests).toMatchObject([{ count: 1 }]);
  });

  it("evicts unused names when the kernel's map fills, and raises its generation", () => {
    const kernel = new Kernel();
    for (let index = 0; index < 60; index++) {
      const [key, value] = [Buffer.alloc(8), Buffer.alloc(8)];
      key.writeUInt32LE(index + 1000);
      value.writeBigUInt64LE(BigInt(42 + index));
      kernel.maps["learned"]?.set(key, value);
      kernel.learn(BigInt(42 + index), `GET /page${"x".repeat(index)} HTTP/1.1\r\n\r\n`);
    }
    kernel.count(kernel.key(), { durationNs: 5000 });
    kernel.table.collect(second);
    expect(kernel.maps["learned"]?.entries.size).toBe(1);
    expect(kernel.table.names.size).toBe(1);
    expect(kernel.maps["controls"]?.entries.get("00000000")?.value.readUInt32LE(controlsLayout.generation)).toBe(1);
    kernel.count(kernel.key(), { durationNs: 5000 });
    expect(kernel.table.collect(2n * second).requests).toMatchObject([{ count: 1, route: "/page" }]);
  });

  it("accounts for names that the kernel emits once per process and end of a connection", () => {
    const kernel = new Kernel();
    for (let index = 0; index < 60; index++) {
      const [key, value] = [Buffer.alloc(8), Buffer.alloc(8)];
      key.writeUInt32LE(index + 1000);
      value.writeBigUInt64LE(BigInt(42 + (index >> 1)));
      kernel.maps["learned"]?.set(key, value);
      kernel.learn(BigInt(42 + (index >> 1)), "GET /page HTTP/1.1\r\n\r\n");
    }
    kernel.table.collect(second);
    expect(kernel.maps["learned"]?.entries.size).toBe(0);
  });

  it("returns the losses of the window, and sweeps responses idle for a second", () => {
    const kernel = new Kernel();
    const lose = (index: number, total: bigint) => {
      const key = Buffer.alloc(4);
      key.writeUInt32LE(index);
      const value = Buffer.alloc(8);
      value.writeBigUInt64LE(total);
      kernel.maps["losses"]?.set(key, value);
    };
    lose(0, 5n);
    lose(3, 1n);
    expect([...kernel.table.collect(second).losses]).toEqual([
      ["ring-full", 5],
      ["unknown-protocol", 1],
    ]);
    lose(0, 7n);
    expect([...kernel.table.collect(2n * second).losses]).toEqual([["ring-full", 2]]);
    expect(kernel.table.sweep(10n * second)).toEqual({ finished: 3, connections: 0 });
    expect(kernel.swept).toEqual([9n * second]);
  });
});
