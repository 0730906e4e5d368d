import { writeFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { defineSegmentSignal } from "../../signals/define-segment-signal.ts";
import { seededRandom, temporaryFolder } from "../../store.fixture.ts";
import { batchFromSegmentRows } from "../batch-builder.ts";
import { tick, tickRows } from "../segment.fixture.ts";
import { hasOwnFooter } from "./check-footer.ts";
import { encodeParquet, rowGroupRows } from "./encode-parquet.ts";
import { readThrift } from "./read-thrift.ts";
import { bool, bytes, encodeThrift, int32, int64, list, struct } from "./thrift-compact.ts";

const folder = temporaryFolder();
afterAll(() => folder[Symbol.dispose]());
let files = 0;

function written(content: Uint8Array): string {
  const file = folder.file(`${files++}.parquet`);
  writeFileSync(file, content);
  return file;
}

const encoded = (rows: number): Buffer => Buffer.concat(encodeParquet(tick, batchFromSegmentRows(tick, tickRows(rows))).parts);

describe("hasOwnFooter()", () => {
  it("accepts files of our writer with any number of row groups", () => {
    for (const rows of [0, 1, 500, rowGroupRows + 1]) expect(hasOwnFooter(tick, written(encoded(rows)), rows)).toBe(true);
  });

  it("rejects other row counts, other columns, and files that are not Parquet", () => {
    const { retention } = tick;
    const { flag: _flag, ...fewer } = tick.columns;
    const content = encoded(100);
    const file = written(content);
    expect(hasOwnFooter(tick, file, 99)).toBe(false);
    expect(hasOwnFooter(defineSegmentSignal({ name: "tick", description: "d", columns: fewer, retention }), file, 100)).toBe(false);
    const others = { ...tick.columns, flag: "int32" } as const;
    expect(hasOwnFooter(defineSegmentSignal({ name: "tick", description: "d", columns: others, retention }), file, 100)).toBe(false);
    for (const bad of [Buffer.alloc(0), Buffer.from("PAR1"), Buffer.alloc(5_000, "PAR1"), content.subarray(0, -1), content.subarray(9)]) {
      expect(hasOwnFooter(tick, written(bad), 100)).toBe(false);
    }
  });

  it("rejects a chunk outside the file", () => {
    const content = encoded(100);
    const footerAt = content.length - 8 - content.readUInt32LE(content.length - 8);
    // The same footer behind fewer bytes of data.
    const short = Buffer.concat([content.subarray(0, footerAt - 50), content.subarray(footerAt)]);
    expect(hasOwnFooter(tick, written(short), 100)).toBe(false);
  });

  it("returns a result for any footer bytes", () => {
    const random = seededRandom(11);
    const content = encoded(50);
    const footerBytes = content.readUInt32LE(content.length - 8);
    let refused = 0;
    for (let round = 0; round < 300; round++) {
      const damaged = Buffer.from(content);
      const at = content.length - 1 - Math.floor(random() * (footerBytes + 8));
      damaged[at] = Math.floor(random() * 256);
      if (!hasOwnFooter(tick, written(damaged), 50)) refused++;
    }
    expect(refused).toBeGreaterThan(100);
  });
});

describe("readThrift()", () => {
  const all = encodeThrift([
    [1, int32(-7)],
    [2, int64(2 ** 40)],
    [20, bytes("text")],
    [21, bool(true)],
    [22, bool(false)],
    [40, list(Array.from({ length: 20 }, (_, index) => int32(index)))],
    [41, struct([[1, list([struct([[3, int32(5)]])])]])],
  ]);

  it("reads back what was written", () => {
    const read = readThrift(all);
    expect([1, 2, 21, 22].map((id) => read.get(id))).toEqual([-7, 2 ** 40, true, false]);
    expect(Buffer.from(read.get(20) as Uint8Array).toString()).toBe("text");
    expect(read.get(40)).toEqual(Array.from({ length: 20 }, (_, index) => index));
    expect(read.get(41)).toEqual(new Map([[1, [new Map([[3, 5]])]]]));
  });

  it("rejects bytes that end early, continue, or nest without limit", () => {
    for (let length = 0; length < all.length; length++) expect(() => readThrift(all.subarray(0, length))).toThrow(Error);
    expect(() => readThrift(Buffer.concat([all, Buffer.alloc(1)]))).toThrow("after the struct");
    expect(() => readThrift(Buffer.alloc(10_000, 0x1c))).toThrow("deeply");
    expect(() => readThrift(Buffer.alloc(10_000, 0x19))).toThrow("deeply");
    expect(() => readThrift(Buffer.from([0x16, ...Array<number>(12).fill(0xff), 1, 0]))).toThrow("too large");
    expect(() => readThrift(Buffer.from([0x18, 0xff, 0xff, 0x7f, 0]))).toThrow("unexpected end");
  });
});
