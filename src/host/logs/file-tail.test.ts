import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openFiles } from "../../base/open-files.fixture.ts";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { expandPaths } from "./expand-paths.ts";
import { FileTail, type FileTailOptions, type TailPosition } from "./file-tail.ts";
import { LineSplitter } from "./line-splitter.ts";

let directory: string;
let path: string;
let nowMs = 0;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-tail-"));
  path = join(directory, "app.log");
});
afterEach(() => rmSync(directory, { recursive: true }));

const tailOf = (more: Partial<FileTailOptions> = {}): FileTail => new FileTail({ path, position: undefined, fromStart: true, ...more });

/** All lines available now. */
async function linesOf(tail: FileTail, passMs = 0): Promise<string[]> {
  nowMs += passMs;
  const lines: string[] = [];
  for (;;) {
    const before = tail.position?.offsetBytes;
    const read = await tail.read(1_000, nowMs);
    lines.push(...read.map(({ text }) => text));
    if (read.length === 0 && tail.position?.offsetBytes === before) return lines;
  }
}

/** Rotates as logrotate does: every file gets the next number. */
function rotate(count: number): void {
  for (let number = count - 1; number >= 1; number--)
    if (existsSync(`${path}.${number}`)) renameSync(`${path}.${number}`, `${path}.${number + 1}`);
  renameSync(path, `${path}.1`);
}

/** In a file whose first byte was a zero. */
function positionOf(file: string): TailPosition {
  const { dev, ino } = statSync(file);
  return { device: dev, inode: ino, offsetBytes: 0, head: "00" };
}

describe("FileTail", () => {
  it("emits lines once terminated, and an unterminated last line after a delay", async () => {
    writeFileSync(path, "one\ntwo\nthr");
    const tail = tailOf();
    expect(await linesOf(tail)).toEqual(["one", "two"]);
    appendFileSync(path, "ee\nfo");
    expect(await linesOf(tail)).toEqual(["three"]);
    expect(await linesOf(tail, 4_000)).toEqual([]);
    expect(await linesOf(tail, 2_000)).toEqual(["fo"]);
    await tail.close();
  });

  it("starts at the end of an unknown file, after the line being written", async () => {
    writeFileSync(path, "old\nhalf");
    const tail = tailOf({ fromStart: false });
    expect(await linesOf(tail)).toEqual([]);
    appendFileSync(path, " of it\nnew\n");
    expect(await linesOf(tail)).toEqual(["new"]);
    await tail.close();
  });

  it("waits for a file, and reads it from its beginning when it appears", async () => {
    const tail = tailOf({ fromStart: false });
    expect(await linesOf(tail)).toEqual([]);
    writeFileSync(path, "first\n");
    expect(await linesOf(tail)).toEqual(["first"]);
    await tail.close();
  });

  it("resumes at its offset, even in the middle of a line", async () => {
    writeFileSync(path, "one\ntw");
    const first = tailOf();
    expect(await linesOf(first)).toEqual(["one"]);
    await first.close();
    appendFileSync(path, "o\nthree\n");
    const second = tailOf({ position: first.position, fromStart: false });
    expect(await linesOf(second)).toEqual(["two", "three"]);
    await second.close();
  });

  it("reads a renamed file to its end, then the new one", async () => {
    writeFileSync(path, "one\n");
    const tail = tailOf();
    expect(await linesOf(tail)).toEqual(["one"]);
    renameSync(path, `${path}.1`);
    appendFileSync(`${path}.1`, "late\n");
    expect(await linesOf(tail)).toEqual(["late"]);
    writeFileSync(path, "new\n");
    expect(await linesOf(tail)).toEqual([]);
    appendFileSync(`${path}.1`, "later\n");
    expect(await linesOf(tail, 1_000)).toEqual(["later"]);
    expect(await linesOf(tail, 3_000)).toEqual(["new"]);
    expect(tail.counts.rotations).toBe(1);
    await tail.close();
  });

  it("finds a file that was renamed while it was stopped", async () => {
    writeFileSync(path, "one\ntwo\n");
    const first = tailOf();
    expect(await first.read(4, nowMs)).toHaveLength(1);
    await first.close();
    renameSync(path, `${path}.1`);
    writeFileSync(path, "new\n");
    const second = tailOf({ position: first.position });
    expect(await linesOf(second)).toEqual(["two"]);
    expect(await linesOf(second)).toEqual([]);
    expect(await linesOf(second, 3_000)).toEqual(["new"]);
    await second.close();
  });

  it("reads every file of several rotations between two reads, in order", async () => {
    writeFileSync(path, "2026-01-01 first file\n");
    const tail = tailOf();
    expect(await linesOf(tail)).toEqual(["2026-01-01 first file"]);
    appendFileSync(path, "end of the first\n");
    rotate(3);
    writeFileSync(path, "2026-01-02 second file\n");
    rotate(3);
    writeFileSync(path, "2026-01-03 third file\n");
    rotate(3);
    writeFileSync(path, "now\n");
    const lines: string[] = [];
    for (let round = 0; round < 10; round++) lines.push(...(await linesOf(tail, 3_000)));
    expect(lines).toEqual(["end of the first", "2026-01-02 second file", "2026-01-03 third file", "now"]);
    expect(tail.counts).toMatchObject({ rotations: 3, packedFiles: 0 });
    await tail.close();
  });

  it("resumes with the file in between after a restart", async () => {
    writeFileSync(path, "2026-01-01 first file\n");
    const first = tailOf();
    expect(await linesOf(first)).toEqual(["2026-01-01 first file"]);
    await first.close();
    rotate(2);
    writeFileSync(path, "2026-01-02 second file\n");
    rotate(2);
    writeFileSync(path, "now\n");
    const second = tailOf({ position: first.position });
    const lines: string[] = [];
    for (let round = 0; round < 8; round++) lines.push(...(await linesOf(second, 3_000)));
    expect(lines).toEqual(["2026-01-02 second file", "now"]);
    await second.close();
  });

  it("counts a rotated file that was compressed before it was read", async () => {
    writeFileSync(path, "2026-01-01 first file\n");
    const tail = tailOf();
    await linesOf(tail);
    renameSync(path, `${path}.2`);
    writeFileSync(`${path}.1.gz`, "not a text");
    writeFileSync(path, "now\n");
    expect([...(await linesOf(tail, 3_000)), ...(await linesOf(tail, 3_000))]).toEqual(["now"]);
    expect(tail.counts.packedFiles).toBe(1);
    await tail.close();
  });

  it.each(["", "a\n"])("reads the copy of a file that was truncated when only %j of it had been read", async (start) => {
    writeFileSync(`${path}.2`, "of another day\n");
    writeFileSync(path, start);
    const tail = tailOf();
    const lines = await linesOf(tail);
    appendFileSync(path, "one\ntwo\n");
    // A copy of another file, although its name has the same prefix.
    writeFileSync(join(directory, "app-errors.log"), "errors\n");
    copyFileSync(path, `${path}.1`);
    truncateSync(path);
    appendFileSync(path, "three\nfour and more\n");
    for (let round = 0; round < 4; round++) lines.push(...(await linesOf(tail, 3_000)));
    expect(lines).toEqual([...(start === "" ? [] : ["a"]), "one", "two", "three", "four and more"]);
    await tail.close();
  });

  it("does not read a copy of a file that was not truncated", async () => {
    writeFileSync(path, "");
    const tail = tailOf();
    expect(await linesOf(tail)).toEqual([]);
    appendFileSync(path, "one\n");
    copyFileSync(path, `${path}.1`);
    expect(await linesOf(tail)).toEqual(["one"]);
    expect(await linesOf(tail, 3_000)).toEqual([]);
    await tail.close();
  });

  it.each(["rename", "copy"])("reads a new file that was rotated before its first read, by %s", async (how) => {
    const appearedAfterMs = Date.now() - 1_000;
    writeFileSync(path, "one\n");
    if (how === "rename") renameSync(path, `${path}.1`);
    else copyFileSync(path, `${path}.1`);
    writeFileSync(path, "two\n");
    const tail = tailOf({ appearedAfterMs });
    const lines = await linesOf(tail);
    for (let round = 0; round < 3; round++) lines.push(...(await linesOf(tail, 3_000)));
    expect(lines).toEqual(["one", "two"]);
    const later = tailOf({ appearedAfterMs: Date.now() + 1_000 });
    expect(await linesOf(later)).toEqual(["two"]);
    await later.close();
    await tail.close();
  });

  it("joins a stack trace that arrives in parts, and keeps the offset before it until it is complete", async () => {
    writeFileSync(path, "INFO fine\nERROR failed\n");
    const tail = tailOf();
    expect(await linesOf(tail)).toEqual(["INFO fine"]);
    expect(tail.position?.offsetBytes).toBe("INFO fine\n".length);
    appendFileSync(path, "java.lang.Error: x\n\tat a.b(C.java:1)\n\tat d.");
    expect(await linesOf(tail, 500)).toEqual([]);
    appendFileSync(path, "e(F.java:2)\nINFO next\n");
    expect(await linesOf(tail, 500)).toEqual(["ERROR failed\njava.lang.Error: x\n\tat a.b(C.java:1)\n\tat d.e(F.java:2)", "INFO next"]);
    appendFileSync(path, "ERROR alone\n");
    expect(await linesOf(tail)).toEqual([]);
    expect(await linesOf(tail, 1_000)).toEqual(["ERROR alone"]);
    expect(tail.position?.offsetBytes).toBe(statSync(path).size);
    await tail.close();
  });

  it("emits a pending record when the file is truncated", async () => {
    writeFileSync(path, "ERROR that may go on\n");
    const tail = tailOf();
    expect(await linesOf(tail)).toEqual([]);
    truncateSync(path);
    appendFileSync(path, "new\n");
    expect(await linesOf(tail)).toEqual(["ERROR that may go on", "new"]);
    await tail.close();
  });

  it("restarts after truncation, even if the file has since outgrown its old offset", async () => {
    writeFileSync(path, "one\n");
    const tail = tailOf();
    expect(await linesOf(tail)).toEqual(["one"]);
    copyFileSync(path, `${path}.1`);
    truncateSync(path);
    expect(await linesOf(tail)).toEqual([]);
    appendFileSync(path, "a\n");
    expect(await linesOf(tail)).toEqual(["a"]);
    writeFileSync(path, "another beginning\nand more\n");
    expect(await linesOf(tail)).toEqual(["another beginning", "and more"]);
    expect(tail.counts.truncations).toBe(2);
    await tail.close();
  });

  it("reads from the copy what was written before the file was truncated", async () => {
    writeFileSync(path, "the first line\nthe second line\n");
    const tail = tailOf();
    expect(await linesOf(tail)).toEqual(["the first line", "the second line"]);
    appendFileSync(path, "half");
    expect(await linesOf(tail)).toEqual([]);
    // A copy with the same beginning, and one of another file.
    writeFileSync(`${path}.2`, "the first line\nthe other line\nof another day\n");
    writeFileSync(join(directory, "other.log.1"), "the first line\nthe second line\nhalf of another file\n");
    appendFileSync(path, " a line\nthe last one\n");
    copyFileSync(path, `${path}.1`);
    truncateSync(path);
    appendFileSync(path, "new\n");
    expect(await linesOf(tail)).toEqual(["half a line", "the last one"]);
    expect(await linesOf(tail)).toEqual([]);
    expect(await linesOf(tail, 3_000)).toEqual(["new"]);
    expect(tail.counts).toMatchObject({ truncations: 1, lines: 5 });
    await tail.close();
  });

  it("finds the copy of a file that was truncated while it was stopped", async () => {
    writeFileSync(path, "the very first line\nthe second line\n");
    const first = tailOf();
    expect(await first.read(20, nowMs)).toHaveLength(1);
    await first.close();
    copyFileSync(path, `${path}-20261115`);
    writeFileSync(path, "new\n");
    const second = tailOf({ position: first.position });
    expect(await linesOf(second)).toEqual(["the second line"]);
    expect(await linesOf(second)).toEqual([]);
    expect(await linesOf(second, 3_000)).toEqual(["new"]);
    await second.close();
  });

  it("truncates huge lines, skips binary ones, and counts both", async () => {
    writeFileSync(
      path,
      Buffer.concat([Buffer.from(`${"x".repeat(5_000)}\nok\r\n`), Buffer.from([0, 1, 2, 10]), Buffer.from("\u001b[31mred\u001b[0m\n")]),
    );
    const tail = tailOf({ maxLineBytes: 100 });
    expect(await linesOf(tail)).toEqual(["x".repeat(100), "ok", "red"]);
    expect(tail.counts).toMatchObject({ lines: 3, cutLines: 1, binaryLines: 1 });
    await tail.close();
  });

  it("skips the older half of a backlog that is too large", async () => {
    writeFileSync(path, "line of ten\n".repeat(1_000));
    const tail = tailOf({ maxLagBytes: 1_200 });
    const lines = await linesOf(tail);
    expect(lines.length).toBeLessThanOrEqual(50);
    expect(new Set(lines)).toEqual(new Set(["line of ten"]));
    expect(tail.counts.skippedBytes).toBe(12_000 - 600);
    await tail.close();
  });

  it("rejects non-regular files without blocking", async () => {
    mkdirSync(path);
    await expect(tailOf().read(1_000, nowMs)).rejects.toMatchObject({ code: "EINVAL" });
  });

  it("reports missing read permission", async ({ skip }) => {
    skip(process.getuid?.() === 0, "root may read everything");
    writeFileSync(path, "x\n");
    chmodSync(path, 0);
    await expect(tailOf().read(1_000, nowMs)).rejects.toMatchObject({ code: "EACCES" });
  });
});

describe("LineSplitter", () => {
  it("keeps no descriptor of an unreadable file open", async () => {
    const unreadable = positionOf("/proc/self/mem");
    const tail = tailOf({ path: "/proc/self/mem", position: unreadable });
    await expect(tail.read(1_000, nowMs)).rejects.toMatchObject({ code: "EIO" });
    expect(openFiles()).not.toContain(`/proc/${process.pid}/mem`);
  });

  it("continues with the new file if the previous one cannot be read", async () => {
    writeFileSync(path, "new\n");
    symlinkSync("/proc/self/mem", `${path}.1`);
    const tail = tailOf({ position: positionOf(`${path}.1`) });
    expect(await linesOf(tail)).toEqual(["new"]);
    expect(openFiles()).not.toContain(`/proc/${process.pid}/mem`);
    await tail.close();
    expect(openFiles()).not.toContain(path);
  });

  it("emits the same lines for any chunking of the bytes", () => {
    const random = new SeededRandom(7);
    const text = Array.from({ length: 200 }, (_, index) => `${"é".repeat(random.below(40))} ${index}`).join("\n");
    const bytes = Buffer.from(`${text}\n`);
    const whole = new LineSplitter({ maxLineBytes: 60 }).push(bytes);
    for (let round = 0; round < 50; round++) {
      const splitter = new LineSplitter({ maxLineBytes: 60 });
      const lines = [];
      for (let at = 0; at < bytes.length; ) {
        const end = Math.min(bytes.length, at + 1 + random.below(90));
        lines.push(...splitter.push(bytes.subarray(at, end)));
        at = end;
      }
      expect(lines).toEqual(whole);
    }
  });
});

describe("expandPaths()", () => {
  it("finds files by pattern, excluding compressed files and directories", async () => {
    for (const name of ["a/x.log", "a/x.log.1", "a/x.log.2.gz", "a/x.log-20261115", "b/y.log", "b/z.txt"]) {
      mkdirSync(join(directory, name, ".."), { recursive: true });
      writeFileSync(join(directory, name), "");
    }
    mkdirSync(join(directory, "b/folder.log"));
    expect(await expandPaths(`${directory}/*/*.log*`, 10)).toEqual([join(directory, "a/x.log"), join(directory, "b/y.log")]);
    expect(await expandPaths(`${directory}/*/*`, 1)).toHaveLength(1);
    expect(await expandPaths(`${directory}/nothing/*.log`, 10)).toEqual([]);
    expect(await expandPaths("/plain/path.log", 10)).toEqual(["/plain/path.log"]);
  });
});
