/** The golden pid file: commands of another version read it to find a running daemon. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { PidFile, readPidFile } from "./pid-file.ts";

const golden = (pid: number): string =>
  `${`{"pid":${pid},"kind":"colony","version":"0.1.0","startedAt":"2026-01-01T00:00:00.000Z","endpoints":{"colony":"127.0.0.1:9000"}}`.padEnd(1_023)}\n`;

let path: string;
beforeEach(() => {
  path = join(mkdtempSync(join(tmpdir(), "coral-pid-golden-")), "colony.pid");
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(join(path, ".."), { recursive: true, force: true });
});

describe("the pid file", () => {
  it("is written byte for byte, padded to 1,024 bytes", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2026, 0, 1) });
    using file = await PidFile.acquire(path, "colony", "0.1.0");
    file.setEndpoints({ colony: "127.0.0.1:9000" });
    expect(readFileSync(path, "utf8")).toBe(golden(process.pid));
  });

  it("is read back", () => {
    writeFileSync(path, golden(4_711));
    expect(readPidFile(path)).toEqual({
      pid: 4_711,
      kind: "colony",
      version: "0.1.0",
      startedAt: "2026-01-01T00:00:00.000Z",
      endpoints: { colony: "127.0.0.1:9000" },
    });
  });
});
