import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { tryLockFile } from "../../bpf/index.ts";
import { colonyPaths } from "../../config/index.ts";
import { PidFile, readPidFile, runningColonyPids, runningHolder } from "./pid-file.ts";

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-pid-"));
  path = join(directory, "x.pid");
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

it("PidFile.acquire() rejects a second holder and names the first", async () => {
  using file = await PidFile.acquire(path, "colony", "0.1.0");
  file.setEndpoints({ colony: "127.0.0.1:9000" });
  await expect(PidFile.acquire(path, "colony", "0.1.0")).rejects.toThrow(new RegExp(`already running with pid ${process.pid}`));
  expect(runningHolder(path)).toMatchObject({ pid: process.pid, endpoints: { colony: "127.0.0.1:9000" } });
});

it("a released file has no holder and can be acquired again", async () => {
  {
    using file = await PidFile.acquire(path, "agent", "0.1.0");
    expect(file.path).toBe(path);
  }
  expect(runningHolder(path)).toBeUndefined();
  expect(readFileSync(path, "utf8").trim()).toBe("");
  using again = await PidFile.acquire(path, "agent", "0.1.0");
  expect(readPidFile(again.path)?.pid).toBe(process.pid);
});

it("a released file keeps its space, so that the next start needs none", async () => {
  const file = await PidFile.acquire(path, "agent", "0.1.0");
  const { size } = statSync(path);
  file[Symbol.dispose]();
  expect(statSync(path).size).toBe(size);
});

it("a file left by a killed process can be acquired", async () => {
  const child = spawn("flock", ["--close", path, "sleep", "5"], { stdio: "ignore" });
  await once(child, "spawn");
  child.kill("SIGKILL");
  await once(child, "exit");
  writeFileSync(path, '{"pid":1,"startedAt":"x"}');
  using file = await PidFile.acquire(path, "agent", "0.1.0");
  expect(readPidFile(file.path)?.pid).toBe(process.pid);
});

it("readPidFile() returns undefined for missing, empty and invalid content", () => {
  expect(readPidFile(path)).toBeUndefined();
  for (const text of ["", "123", "{", '{"pid":"x","startedAt":""}']) {
    writeFileSync(path, text);
    expect(readPidFile(path)).toBeUndefined();
  }
});

it("PidFile.acquire() waits for a concurrent runningHolder()", async () => {
  const fd = openSync(path, "w");
  expect(tryLockFile(fd)).toBe(true);
  const acquiring = PidFile.acquire(path, "agent", "0.1.0");
  closeSync(fd);
  using file = await acquiring;
  expect(runningHolder(file.path)?.pid).toBe(process.pid);
});

it("a shorter record fully replaces a longer one", async () => {
  using file = await PidFile.acquire(path, "colony", "0.1.0");
  file.setEndpoints({ colony: "https://127.0.0.1:9000", socket: "/tmp/a-rather-long-directory-name/colony.sock" });
  file.setEndpoints({ colony: "x" });
  expect(readPidFile(path)?.endpoints).toEqual({ colony: "x" });
});

it("runningColonyPids() has running colonies only", async () => {
  const home = mkdtempSync(join(tmpdir(), "coral-home-"));
  try {
    expect(runningColonyPids(home)).toEqual([]);
    const path = colonyPaths(home, "shop-dev-1a2b3c").pidFile;
    mkdirSync(dirname(path), { recursive: true });
    const file = await PidFile.acquire(path, "colony", "0");
    expect(runningColonyPids(home)).toEqual([process.pid]);
    file[Symbol.dispose]();
    expect(runningColonyPids(home)).toEqual([]);
  } finally {
    rmSync(home, { recursive: true });
  }
});
