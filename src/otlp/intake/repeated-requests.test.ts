import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { RepeatedRequests } from "./repeated-requests.ts";
import { RequestJournal } from "./request-journal.ts";
import { unsealedRequests } from "./unsealed-requests.ts";

let nowMs = 0;
const clock = { monotonicMs: () => nowMs };
const body = (text: string): Buffer => Buffer.from(text);

describe("RepeatedRequests", () => {
  it("processes equal bytes once, and replies both times", async () => {
    const requests = new RepeatedRequests<number>({ clock });
    const take = vi.fn<() => Promise<number>>().mockResolvedValueOnce(1).mockResolvedValueOnce(2);
    expect(await requests.once("traces", body("a"), take)).toBe(1);
    expect(await requests.once("traces", body("a"), take)).toBe(1);
    expect(await requests.once("traces", body("b"), take)).toBe(2);
    expect([take.mock.calls.length, requests.repeated]).toEqual([2, 1]);
  });

  it("distinguishes signals, and bodies that differ only at their ends", async () => {
    const requests = new RepeatedRequests<string>({ clock });
    const large = (last: string): Buffer => Buffer.concat([Buffer.alloc(100_000), body(last)]);
    expect(await requests.once("traces", body("a"), async () => "trace")).toBe("trace");
    expect(await requests.once("logs", body("a"), async () => "log")).toBe("log");
    expect(await requests.once("traces", large("x"), async () => "x")).toBe("x");
    expect(await requests.once("traces", large("y"), async () => "y")).toBe("y");
    expect(requests.repeated).toBe(0);
  });

  it("makes a retransmission wait for the first request", async () => {
    const requests = new RepeatedRequests<number>({ clock });
    let resolve: (value: number) => void = () => undefined;
    const promise = new Promise<number>((done) => (resolve = done));
    const both = [requests.once("traces", body("a"), () => promise), requests.once("traces", body("a"), async () => 2)];
    resolve(1);
    expect(await Promise.all(both)).toEqual([1, 1]);
  });

  it("does not cache failures", async () => {
    const requests = new RepeatedRequests<number>({ clock });
    await expect(requests.once("traces", body("a"), () => Promise.reject(new Error("full")))).rejects.toThrow("full");
    expect(await requests.once("traces", body("a"), async () => 2)).toBe(2);
  });

  it("caches for at least the given time, and at most the given number", async () => {
    nowMs = 0;
    const requests = new RepeatedRequests<number>({ clock, keepMs: 1_000, maxKept: 10 });
    await requests.once("traces", body("a"), async () => 1);
    nowMs = 1_900;
    expect(await requests.once("traces", body("a"), async () => 2)).toBe(1);
    nowMs = 3_000;
    expect(await requests.once("traces", body("a"), async () => 3)).toBe(3);
    for (let index = 0; index < 30; index++) await requests.once("traces", body(`n${index}`), async () => 0);
    expect(await requests.once("traces", body("a"), async () => 4)).toBe(4);
    expect(await requests.once("traces", body("n29"), async () => 5)).toBe(0);
  });
});

describe("RepeatedRequests across a restart", () => {
  let directory: string;
  let wallMs = 1_700_000_000_000;
  const journalOf = (): RequestJournal => {
    const file = join(directory, "otlp-requests.bin");
    return new RequestJournal({ file, unsealed: unsealedRequests(directory), nowMs: () => wallMs, log: silentLogger });
  };
  const accept = async (journal: RequestJournal, ...texts: string[]): Promise<string[]> => {
    const requests = new RepeatedRequests<string>({ clock, journal }, "former");
    const replies: string[] = [];
    for (const text of texts) replies.push(await requests.once("traces", body(text), async () => "new"));
    return replies;
  };
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "coral-journal-"));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("recognises requests that a former process accepted, for five minutes", async () => {
    using first = journalOf();
    expect(await accept(first, "a", "b")).toEqual(["new", "new"]);
    wallMs += 60_000;
    using second = journalOf();
    expect(await accept(second, "b", "c", "a")).toEqual(["former", "new", "former"]);
    wallMs += 299_000;
    using third = journalOf();
    expect(await accept(third, "a", "c")).toEqual(["new", "former"]);
  });

  it("drops keys with the older of two files, and reads a truncated file", async () => {
    using first = journalOf();
    await accept(first, "a");
    first.rotate();
    await accept(first, "b");
    using second = journalOf();
    expect(await accept(second, "a", "b")).toEqual(["former", "former"]);
    second.rotate();
    second.rotate();
    appendFileSync(join(directory, "otlp-requests.bin"), Buffer.alloc(7));
    using third = journalOf();
    expect(await accept(third, "a", "b")).toEqual(["new", "new"]);
  });

  it("recognises requests in write-ahead files, even if they were never acknowledged", async () => {
    mkdirSync(join(directory, "wal/span"), { recursive: true });
    writeFileSync(join(directory, "wal/span/000000001.wal"), writeAheadOf(body("a")));
    using journal = journalOf();
    expect(await accept(journal, "a", "b")).toEqual(["former", "new"]);
  });

  it("accepts requests when the journal cannot be written", async () => {
    using journal = new RequestJournal({ file: join(directory, "none/x"), unsealed: [], nowMs: () => wallMs, log: silentLogger });
    expect(await accept(journal, "a")).toEqual(["new"]);
  });
});

/** One record in the format of write-ahead.ts. */
function writeAheadOf(content: Buffer): Buffer {
  const header = Buffer.alloc(24);
  header.writeUInt32LE(content.length, 0);
  header.writeUInt32LE(1, 12);
  const record = Buffer.concat([header, content]);
  record.writeUInt32LE(crc32(record.subarray(8)), 4);
  return Buffer.concat([Buffer.from("coralwa1"), record]);
}
