/** Golden bytes of a write-ahead file. A new build must read the files of the previous one. A new record layout needs a new magic. */

import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../store.fixture.ts";
import { readWriteAhead, streamWriteAhead, WriteAheadFile, type WriteAheadRecord } from "./write-ahead.ts";

const folder = temporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const records: WriteAheadRecord[] = [
  { kind: 0, rows: 2, receivedUs: 1_767_225_600_000_001, body: Buffer.from("first body") },
  { kind: 258, rows: 0, receivedUs: 0, body: Buffer.alloc(0) },
];

/** Magic, then for each record: length, CRC-32, kind, zero, rows, received time, body. */
const golden = `636f72616c776131
  0a000000 7ed3633a 0000 0000 02000000 04008118211d1943 666972737420626f6479
  00000000 deb5e0d2 0201 0000 00000000 0000000000000000`.replaceAll(/\s/g, "");

describe("the write-ahead file format", () => {
  it("is written byte for byte", async () => {
    const file = new WriteAheadFile(folder.file("written.wal"));
    for (const record of records) await file.append(record);
    await file.close();
    expect(readFileSync(file.file).toString("hex")).toBe(golden);
  });

  it("has the same bytes for a body that is too large to be copied next to its header", async () => {
    const body = Buffer.alloc(5_000, "x");
    const file = new WriteAheadFile(folder.file("large.wal"));
    await file.append({ kind: 1, rows: 3, receivedUs: 1, body });
    await file.close();
    expect(readFileSync(file.file).subarray(8, 32).toString("hex")).toBe("8813000027c14da40100000003000000000000000000f03f");
    expect(readFileSync(file.file).subarray(32)).toEqual(body);
  });

  it("is read back by both readers", () => {
    const path = folder.file("golden.wal");
    writeFileSync(path, Buffer.from(golden, "hex"));
    expect(readWriteAhead(path)).toEqual({ records, unreadBytes: 0, tornRows: 0 });
    const passed = Array.from(streamWriteAhead(path), (record) => ({ ...record, body: Buffer.from(record.body) }));
    expect(passed).toEqual(records);
  });
});
