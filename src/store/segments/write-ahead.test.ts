import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { seededRandom, smallDisk, temporaryFolder } from "../store.fixture.ts";
import { readWriteAhead, streamWriteAhead, WriteAheadFile, type WriteAheadRecord } from "./write-ahead.ts";

const record = (index: number, sizeBytes = index * 3): WriteAheadRecord => ({
  kind: index % 7,
  rows: index,
  receivedUs: 1_767_225_600_000_000 + index,
  body: Buffer.alloc(sizeBytes, index),
});

const shown = (records: readonly WriteAheadRecord[]): unknown[] =>
  records.map(({ body, ...rest }) => ({ ...rest, body: Buffer.from(body).toString("hex") }));

async function written(file: string, records: readonly WriteAheadRecord[]): Promise<void> {
  const ahead = new WriteAheadFile(file);
  await Promise.all(records.map((one) => ahead.append(one)));
  await ahead.sync();
  await ahead.close();
  await ahead.close();
}

describe("WriteAheadFile", () => {
  it.each([0, 1, 3, 1_300])("reads back %i records in order, including empty bodies", async (count) => {
    using folder = temporaryFolder();
    const records = Array.from({ length: count }, (_, index) => record(index, index % 50));
    await written(folder.file("1.wal"), records);
    const content = readWriteAhead(folder.file("1.wal"));
    expect(content.unreadBytes).toBe(0);
    expect(shown(content.records)).toEqual(shown(records));
  });

  it("does not overwrite an existing file", async () => {
    using folder = temporaryFolder();
    await written(folder.file("1.wal"), [record(1)]);
    expect(() => new WriteAheadFile(folder.file("1.wal"))).toThrow("EEXIST");
  });

  it("leaves nothing of a write that a full disk rejected, and continues when space is free", async (context) => {
    const disk = smallDisk(256 * 1024);
    if (typeof disk === "string") return context.skip(disk);
    using _disk = disk;
    const ahead = new WriteAheadFile(`${disk.path}/1.wal`);
    await ahead.append(record(1, 100_000));
    const refused = await Promise.allSettled([ahead.append(record(2, 10)), ahead.append(record(3, 10)), ahead.append(record(4, 400_000))]);
    expect(refused.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    await ahead.append(record(5, 10));
    await ahead.close();
    expect(readWriteAhead(`${disk.path}/1.wal`).records.map(({ rows }) => rows)).toEqual([1, 5]);
  });
});

describe("readWriteAhead()", () => {
  it("tolerates a file cut at any byte", async () => {
    using folder = temporaryFolder();
    const records = [record(1), record(2), record(3)];
    await written(folder.file("1.wal"), records);
    const whole = readFileSync(folder.file("1.wal"));
    const ends = [8, 8 + 27, 8 + 27 + 30, 8 + 27 + 30 + 33];
    expect(whole.length).toBe(ends[3]);
    for (let length = 0; length <= whole.length; length++) {
      writeFileSync(folder.file("cut.wal"), whole.subarray(0, length));
      const { records: read, unreadBytes, tornRows } = readWriteAhead(folder.file("cut.wal"));
      const complete = ends.slice(1).filter((end) => end <= length).length;
      expect(read.length).toBe(complete);
      expect(unreadBytes).toBe(length < 8 ? length : length - (ends[complete] as number));
      // An incomplete header does not reveal the row count.
      const torn = length - (ends[complete] as number);
      expect(tornRows).toBe(torn <= 0 ? 0 : torn < 24 ? 1 : records[complete]?.rows);
    }
  });

  it("never returns a changed record, whichever byte was damaged", async () => {
    using folder = temporaryFolder();
    const records = Array.from({ length: 6 }, (_, index) => record(index + 1));
    await written(folder.file("1.wal"), records);
    const whole = readFileSync(folder.file("1.wal"));
    const expected = shown(records);
    const random = seededRandom(5);
    for (let round = 0; round < 2_000; round++) {
      const damaged = Buffer.from(whole);
      const at = Math.floor(random() * damaged.length);
      damaged[at] = (damaged[at] as number) ^ (1 + Math.floor(random() * 255));
      writeFileSync(folder.file("bad.wal"), damaged);
      const read = shown(readWriteAhead(folder.file("bad.wal")).records);
      expect(read.length).toBeLessThan(6);
      expect(read).toEqual(expected.slice(0, read.length));
    }
    expect(existsSync(folder.file("1.wal"))).toBe(true);
  });
});

describe("streamWriteAhead()", () => {
  const passed = (file: string): unknown[] => Array.from(streamWriteAhead(file), (one) => shown([one])[0]);

  it("returns the same records as readWriteAhead(), smaller and larger than its read buffer", async () => {
    using folder = temporaryFolder();
    const sizes = [1, 700_000, 0, 30_000, 524_256, 524_257, 3_000_000, 5, 200_000, 400_000];
    const records = sizes.map((size, index) => ({ kind: 0, rows: index, receivedUs: index, body: Buffer.alloc(size, index + 1) }));
    await written(folder.file("1.wal"), records);
    expect(passed(folder.file("1.wal"))).toEqual(shown(readWriteAhead(folder.file("1.wal")).records));
    expect(passed(folder.file("1.wal"))).toHaveLength(sizes.length);
  });

  it("stops where readWriteAhead() does when a file was cut or damaged", async () => {
    using folder = temporaryFolder();
    await written(folder.file("1.wal"), [record(1), record(2), record(3)]);
    const whole = readFileSync(folder.file("1.wal"));
    const random = seededRandom(6);
    for (let round = 0; round < 1_000; round++) {
      const bytes = Buffer.from(whole.subarray(0, Math.floor(random() * (whole.length + 1))));
      if (random() < 0.5 && bytes.length > 0) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      writeFileSync(folder.file("bad.wal"), bytes);
      expect(passed(folder.file("bad.wal"))).toEqual(shown(readWriteAhead(folder.file("bad.wal")).records));
    }
  });
});
