import { mkdir, mkdtemp, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLogger } from "../../../base/log.ts";
import { RangesDirectory } from "./ranges-directory.ts";

const fastly = (...addresses: string[]): string => JSON.stringify({ addresses, ipv6_addresses: [] });

let directory = "";
let nowMs = 0;
let lines: string[] = [];
let ranges: RangesDirectory;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-ranges-"));
  nowMs = 1_000_000;
  lines = [];
  const log = createLogger("test", "info", ({ level, message }) => lines.push(`${level}: ${message}`));
  ranges = new RangesDirectory({ directory, clock: { wallMs: () => nowMs, monotonicMs: () => nowMs }, log });
});

afterEach(() => rm(directory, { recursive: true, force: true }));

const write = (name: string, text: string): Promise<void> => writeFile(join(directory, name), text);
const laterMs = (byMs: number): number => (nowMs += byMs);

describe("RangesDirectory", () => {
  it("loads every file, and picks up changed, new and removed ones at the next check", async () => {
    await write("fastly.json", fastly("151.101.0.0/16"));
    await write("ours.txt", "192.0.2.0/24\n");
    expect(await ranges.refreshIfDue()).toBe(true);
    expect(ranges.table.lookup("151.101.1.140")?.provider).toBe("Fastly");
    expect(ranges.table.lookup("192.0.2.9")?.provider).toBe("ours");
    expect(ranges.files).toMatchObject([
      { file: "fastly.json", provider: "Fastly", format: "fastly", prefixes: 1 },
      { file: "ours.txt", provider: "ours", format: "list", prefixes: 1 },
    ]);

    await write("fastly.json", fastly("23.235.32.0/20", "43.249.72.0/22"));
    await write("cloudflare.txt", "173.245.48.0/20");
    await rm(join(directory, "ours.txt"));
    laterMs(29_000);
    expect(await ranges.refreshIfDue()).toBe(false);
    expect(ranges.table.lookup("151.101.1.140")?.provider).toBe("Fastly");
    laterMs(2_000);
    expect(await ranges.refreshIfDue()).toBe(true);
    expect(["151.101.1.140", "23.235.32.1", "173.245.48.1", "192.0.2.9"].map((address) => ranges.table.lookup(address)?.provider)).toEqual([
      undefined,
      "Fastly",
      "Cloudflare",
      undefined,
    ]);
    laterMs(31_000);
    expect(await ranges.refreshIfDue()).toBe(false);
  });

  it("keeps the last valid version of a file that became invalid, and reports it once", async () => {
    await write("fastly.json", fastly("151.101.0.0/16"));
    await ranges.refreshIfDue();
    await write("fastly.json", fastly("151.101.0.0/16").slice(0, -5));
    for (let looks = 0; looks < 3; looks++) {
      laterMs(31_000);
      await ranges.refreshIfDue();
    }
    expect(ranges.table.lookup("151.101.1.140")?.provider).toBe("Fastly");
    expect(ranges.problems).toEqual([expect.stringMatching(/"fastly.json": at line 1 column \d+, truncated JSON$/)]);
    expect(lines.filter((line) => line.startsWith("warn"))).toEqual([
      expect.stringMatching(/truncated JSON; keeping the previous version/),
    ]);

    await write("fastly.json", fastly("23.235.32.0/20"));
    await ranges.refresh();
    expect(ranges.table.lookup("23.235.32.1")?.provider).toBe("Fastly");
    expect(ranges.problems).toEqual([]);
  });

  it("is empty without the directory, and loads when it appears", async () => {
    await rm(directory, { recursive: true });
    expect(await ranges.refreshIfDue()).toBe(false);
    expect(ranges.problems).toEqual([]);
    await mkdir(directory);
    await write("fastly.json", fastly("151.101.0.0/16"));
    laterMs(31_000);
    expect(await ranges.refreshIfDue()).toBe(true);
  });

  it("reports an unreadable directory, and keeps the loaded ranges", async () => {
    await write("fastly.json", fastly("151.101.0.0/16"));
    await ranges.refreshIfDue();
    await rm(directory, { recursive: true });
    await writeFile(directory, "");
    expect(await ranges.refresh()).toBe(false);
    expect(ranges.problems).toEqual([expect.stringMatching(/^Cannot read directory ".*": ENOTDIR/)]);
    expect(ranges.table.prefixCount).toBe(1);
  });

  it("ignores hidden, unfinished and unrelated files, follows links and skips directories", async () => {
    await write(".hidden", "nonsense");
    await write("aws.json.tmp", "nonsense");
    await write("README.md", "# nonsense");
    await mkdir(join(directory, "old"));
    await mkdir(join(directory, ".data"));
    await write(".data/list", "192.0.2.0/24");
    await symlink(".data/list", join(directory, "acme.txt"));
    await symlink("nowhere", join(directory, "dangling.txt"));
    await ranges.refreshIfDue();
    expect(ranges.files.map(({ file }) => file)).toEqual(["acme.txt"]);
    expect(ranges.problems).toEqual([]);
  });

  it("does not read a file larger than 64 MiB", async () => {
    await write("huge.json", "");
    await truncate(join(directory, "huge.json"), 64 * 1024 ** 2 + 1);
    await ranges.refreshIfDue();
    expect(ranges.problems).toEqual(['Cannot read ranges file "huge.json": it is larger than 64 MiB']);
  });

  it("detects a change of the same size by its time", async () => {
    await write("a.txt", "192.0.2.0/24");
    await utimes(join(directory, "a.txt"), 1_000, 1_000);
    await ranges.refreshIfDue();
    await write("a.txt", "192.0.3.0/24");
    await utimes(join(directory, "a.txt"), 2_000, 2_000);
    await ranges.refresh();
    expect(ranges.table.lookup("192.0.3.1")?.provider).toBe("a");
  });
});
