import { appendFileSync, chmodSync, existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import type { ServiceLogsConfig } from "../../config/index.ts";
import { LogTails } from "./log-tails.ts";

class TestClock implements Clock {
  now = Date.UTC(2026, 0, 1);
  wallMs = (): number => this.now;
  monotonicMs = (): number => this.now;
}

let directory: string;
let clock: TestClock;
/** Bodies of all requests as text: protobuf stores strings verbatim. */
let stored: string[];
let services: ServiceLogsConfig[];
let failure: CoralError | undefined;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-tails-"));
  clock = new TestClock();
  stored = [];
  failure = undefined;
  services = [{ service: "api", files: [join(directory, "*.log")], units: [], fromStart: true }];
});
afterEach(() => rmSync(directory, { recursive: true }));

function open(): LogTails {
  return new LogTails({
    services: () => services,
    segments: () => ({
      append: async (signal, { body, rows }) => {
        expect(signal).toBe("log");
        if (failure) throw failure;
        stored.push(`${rows} ${Buffer.from(body).toString("utf8")}`);
      },
    }),
    file: join(directory, "positions.json"),
    owner: undefined,
    hostName: "web-1",
    journalProgram: join(directory, "journalctl"),
    clock,
    log: silentLogger,
  });
}

async function round(tails: LogTails, passMs = 1_000): Promise<void> {
  clock.now += passMs;
  await tails.round();
}

describe("LogTails", () => {
  it("is idle until logs are configured, and again when they are closed", async () => {
    const listed = services;
    services = [];
    await using tails = open();
    expect(tails.isIdle).toBe(true);
    services = listed;
    writeFileSync(join(directory, "a.log"), "INFO fine\n");
    expect(tails.isIdle).toBe(false);
    await round(tails);
    services = [];
    expect(tails.isIdle).toBe(false);
    await round(tails, 10_000);
    expect(tails.isIdle).toBe(true);
  });

  it("stores lines with their service, a stack trace as one record, without secrets", async () => {
    await using tails = open();
    writeFileSync(join(directory, "a.log"), "ERROR broken password=hunter2\n  at one\n  at two\nINFO fine\n");
    await round(tails);
    expect(stored).toHaveLength(1);
    expect(stored[0]).toMatch(/^2 /);
    expect(stored[0]).toContain("ERROR broken password=***\n  at one\n  at two");
    for (const text of ["service.name", "api", "log.file.path", join(directory, "a.log"), "web-1"]) expect(stored[0]).toContain(text);
    expect(stored[0]).not.toContain("hunter2");
  });

  it("resumes after a restart and a rotation without losing or repeating lines", async () => {
    const file = join(directory, "a.log");
    writeFileSync(file, "one\n");
    await using first = open();
    await round(first);
    appendFileSync(file, "two\n");
    await round(first, 100);
    await first[Symbol.asyncDispose]();
    appendFileSync(file, "three\n");
    renameSync(file, `${file}.1`);
    writeFileSync(file, "four\n");
    await using second = open();
    for (let index = 0; index < 5; index++) await round(second);
    const all = stored.join("\n");
    for (const word of ["one", "two", "three", "four"]) expect(all.split(word)).toHaveLength(2);
  });

  it("starts at the end of existing files, and at the beginning of files that appear later, also during a stop", async () => {
    services = [{ service: "api", files: [join(directory, "*.log")], units: [], fromStart: false }];
    writeFileSync(join(directory, "a.log"), "old\n");
    await using first = open();
    await round(first);
    appendFileSync(join(directory, "a.log"), "new\n");
    writeFileSync(join(directory, "b.log"), "beside\n");
    await round(first, 10_000);
    await first[Symbol.asyncDispose]();
    writeFileSync(join(directory, "c.log"), "while stopped\n");
    await using second = open();
    await round(second);
    writeFileSync(join(directory, "other.txt"), "of another service\n");
    services = [...services, { service: "web", files: [join(directory, "other.txt")], units: [], fromStart: false }];
    await round(second, 10_000);
    expect(
      stored.map((text) => ["old", "new", "beside", "while stopped", "of another service"].filter((word) => text.includes(word))),
    ).toEqual([["new"], ["beside"], ["while stopped"]]);
  });

  it("reads a file that appears later from its first line", async () => {
    services = [{ service: "api", files: [join(directory, "*.log")], units: [], fromStart: false }];
    await using tails = open();
    await round(tails);
    writeFileSync(join(directory, "a.log"), "first words\n");
    await round(tails, 10_000);
    expect(stored.join("\n")).toContain("first words");
  });

  it("does not read a renamed file again", async () => {
    await using tails = open();
    const file = join(directory, "app.log");
    writeFileSync(file, "one\n");
    await round(tails);
    renameSync(file, join(directory, "app-2026-11-15.log"));
    appendFileSync(join(directory, "app-2026-11-15.log"), "late\n");
    writeFileSync(file, "two\n");
    for (let index = 0; index < 15; index++) await round(tails);
    const all = stored.join("\n");
    for (const word of ["one", "late", "two"]) expect(all.split(word)).toHaveLength(2);
  });

  it("re-reads lines that the store rejected", async () => {
    await using tails = open();
    writeFileSync(join(directory, "a.log"), "one\n");
    failure = new CoralError({ code: "exhausted", message: "full" });
    await expect(round(tails)).rejects.toThrow("full");
    failure = undefined;
    await round(tails);
    expect(stored).toHaveLength(1);
    expect(stored[0]).toContain("one");
  });

  it("follows config reloads, and reads only configured files", async () => {
    await using tails = open();
    services = [];
    writeFileSync(join(directory, "a.log"), "one\n");
    await round(tails, 10_000);
    expect(stored).toEqual([]);
    expect(existsSync(join(directory, "positions.json"))).toBe(false);
    services = [{ service: "web", files: [join(directory, "a.log")], units: [], fromStart: true }];
    await round(tails, 10_000);
    expect(stored[0]).toContain("web");
    services = [];
    await round(tails, 10_000);
    appendFileSync(join(directory, "a.log"), "two\n");
    await round(tails, 10_000);
    expect(stored).toHaveLength(1);
  });

  it("reads the journal, with its severity and time", async () => {
    const record = JSON.stringify({ MESSAGE: "from the journal", PRIORITY: "4", __CURSOR: "c1", __REALTIME_TIMESTAMP: "1767225600000000" });
    writeFileSync(join(directory, "journalctl"), `#!/bin/sh\necho '${record}'\nexec sleep 60\n`);
    chmodSync(join(directory, "journalctl"), 0o700);
    services = [{ service: "api", files: [], units: ["api.service"], fromStart: false }];
    await using tails = open();
    failure = new CoralError({ code: "exhausted", message: "full" });
    await vi.waitFor(() => expect(round(tails)).rejects.toThrow("full"));
    failure = undefined;
    await round(tails);
    expect(stored).toHaveLength(1);
    expect(stored[0]).toContain("from the journal");
  });

  it("stores many lines as one request, and notes truncated and skipped lines", async () => {
    await using tails = open();
    const lines = Array.from({ length: 1_000 }, (_, index) => `line ${index}`);
    writeFileSync(join(directory, "a.log"), `${lines.join("\n")}\n\u0000\n${"x".repeat(70_000)}\n`);
    await round(tails);
    expect(stored).toHaveLength(1);
    expect(stored[0]).toMatch(/^1001 /);
    for (const line of ["line 0", "line 555", "line 999"]) expect(stored[0]).toContain(line);
    expect(tails.notes()).toEqual([`Log file "${join(directory, "a.log")}": 1 line truncated at 64 KiB; 1 line skipped as binary`]);
    expect(tails.counts()).toMatchObject({ lines: 1_001, cutLines: 1, binaryLines: 1 });
  });

  it("notes unreadable files", async () => {
    services = [{ service: "api", files: ["/dev/null"], units: [], fromStart: true }];
    await using tails = open();
    await round(tails);
    expect(tails.notes()).toEqual(['Cannot read the log file "/dev/null": /dev/null is not a regular file']);
  });
});
