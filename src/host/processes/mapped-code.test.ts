import { spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, realpathSync, rmSync, unlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { readBuildId } from "../../code/index.ts";
import { createCodeMaps, createMapsParser } from "./mapped-code.ts";

const sample = `555555554000-555555556000 r--p 00000000 fe:01 131 /usr/bin/thing
555555556000-55555555a000 r-xp 00002000 fe:01 131                        /usr/bin/thing
7ffff7c00000-7ffff7c28000 r--p 00000000 fe:01 77 /usr/lib/libc.so.6
7ffff7c28000-7ffff7dbd000 r-xp 00028000 fe:01 77                         /usr/lib/libc.so.6
7ffff7dbd000-7ffff7dbe000 r-xp 00028000 fe:01 77                         /usr/lib/libc.so.6
7ffff7e00000-7ffff7e10000 rwxp 00000000 00:00 0
7ffff7f00000-7ffff7f10000 r-xp 00000000 00:2e 912 /opt/a dir/libssl.so.3 (deleted)
7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0                          [vdso]
7ffff7fd0000-7ffff7fd1000 r-xs 00000000 00:05 0                          /dev/zero (deleted)
`;
const expected = [
  { key: "fe:01:131", path: "/usr/bin/thing", range: "555555556000-55555555a000" },
  { key: "fe:01:77", path: "/usr/lib/libc.so.6", range: "7ffff7c28000-7ffff7dbd000" },
  { key: "00:2e:912", path: "/opt/a dir/libssl.so.3 (deleted)", range: "7ffff7f00000-7ffff7f10000" },
];

describe("createMapsParser()", () => {
  it("returns each file that is mapped as code once", () => {
    const parser = createMapsParser();
    parser.take(Buffer.from(sample));
    expect(parser.files()).toEqual(expected);
  });

  it("is independent of chunk boundaries", () => {
    for (let size = 1; size < 200; size += 7) {
      const parser = createMapsParser();
      const shared = Buffer.alloc(size);
      for (let at = 0; at < sample.length; at += size) {
        const piece = Buffer.from(sample.slice(at, at + size));
        piece.copy(shared);
        parser.take(shared.subarray(0, piece.length));
      }
      expect(parser.files()).toEqual(expected);
    }
  });

  it("never throws on random text", () => {
    const random = new SeededRandom(5);
    for (let round = 0; round < 300; round++) {
      const bytes = Buffer.from(sample);
      for (let hit = 0; hit < 20; hit++) bytes[random.below(bytes.length)] = random.below(256);
      const parser = createMapsParser();
      parser.take(bytes);
      expect(parser.files().length).toBeLessThan(10);
    }
  });
});

describe.skipIf(process.platform !== "linux")("createCodeMaps()", () => {
  it("finds this process among all, and its executable among its files", () => {
    const maps = createCodeMaps();
    expect(maps.listProcesses()).toContain(process.pid);
    const code = maps.read(process.pid);
    expect(code?.executable).toBe(realpathSync(process.execPath));
    const file = code?.files.find(({ path }) => path === code.executable);
    expect(file).toBeDefined();
    using opened = file === undefined ? null : maps.open(process.pid, file);
    expect(opened && readBuildId(opened.readAt)).toMatch(/^[0-9a-f]{8,}$/);
    expect(opened && maps.isOnHost(opened, realpathSync(process.execPath))).toBe(true);
  });

  it("is null for a process that does not exist", () => {
    expect(createCodeMaps().read(2 ** 30)).toBeNull();
  });

  it.skipIf(process.getuid?.() !== 0)("opens a file that was deleted while it runs", async () => {
    const directory = mkdtempSync(join(tmpdir(), "coral-mapped-"));
    const path = join(directory, "sleeper");
    copyFileSync("/bin/sleep", path);
    const child = spawn(path, ["30"], { stdio: "ignore" });
    try {
      await new Promise((resolve) => child.once("spawn", resolve));
      const maps = createCodeMaps();
      unlinkSync(path);
      const code = maps.read(child.pid as number);
      const file = code?.files.find((one) => one.path === `${path} (deleted)`);
      expect(file).toBeDefined();
      using opened = file === undefined ? null : maps.open(child.pid as number, file);
      expect(opened?.sizeBytes).toBeGreaterThan(1000);
      expect(opened && maps.isOnHost(opened, path)).toBe(false);
    } finally {
      child.kill("SIGKILL");
      rmSync(directory, { recursive: true, force: true });
    }
  });
});
