import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type JournalRecord, JournalTail, recordIn } from "./journal-tail.ts";

let directory: string;
let program: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-journal-"));
  program = join(directory, "journalctl");
});
afterEach(() => rmSync(directory, { recursive: true }));

const line = (message: unknown, cursor: string, more: Record<string, unknown> = {}): string =>
  JSON.stringify({ MESSAGE: message, __CURSOR: cursor, __REALTIME_TIMESTAMP: "1767225600000123", ...more });

/** Fake journalctl: records its arguments and prints the lines. */
function install(lines: readonly string[], end = "exec sleep 60"): void {
  writeFileSync(join(directory, "lines"), `${lines.join("\n")}\n`);
  writeFileSync(program, `#!/bin/sh\necho "$@" >> ${directory}/args\ncat ${directory}/lines\n${end}\n`);
  chmodSync(program, 0o700);
}

async function takeAll(tail: JournalTail, count: number, nowMs = 0): Promise<JournalRecord[]> {
  const records: JournalRecord[] = [];
  await vi.waitFor(
    () => {
      records.push(...tail.take(500, nowMs));
      expect(records).toHaveLength(count);
    },
    { timeout: 10_000, interval: 10 },
  );
  return records;
}

describe("JournalTail", () => {
  it("follows units from the cursor, and keeps the cursor to resume at", async () => {
    install([
      line("hello", "c1", { PRIORITY: "3", _PID: "77" }),
      "half a li",
      line([104, 105, 195, 169], "c2"),
      line("x".repeat(200), "c3"),
    ]);
    const tail = new JournalTail({ units: ["api.service"], cursor: "c0", program, maxLineBytes: 100 });
    const records = await takeAll(tail, 3);
    expect(records[0]).toEqual({ message: "hello", priority: 3, timeUs: 1_767_225_600_000_123, pid: 77 });
    expect(records[1]).toMatchObject({ message: "hi\u00e9", priority: null });
    expect(records[2]?.message).toHaveLength(100);
    expect(tail).toMatchObject({ cursor: "c3", unreadable: 1, problem: "" });
    expect(readFileSync(join(directory, "args"), "utf8").trim()).toBe(
      "--follow --output=json --no-pager --quiet --after-cursor=c0 --no-tail --unit=api.service",
    );
    tail.close();
  });

  it("reports why there is no output, and retries later", async () => {
    install([], "echo 'no journal files' >&2; exit 1");
    const tail = new JournalTail({ units: ["api.service"], cursor: undefined, program });
    tail.take(10, 0);
    await vi.waitFor(() => expect(tail.problem).toBe("journalctl exited with 1: no journal files"));
    install([line("back", "c9")]);
    expect(tail.take(10, 1_000)).toEqual([]);
    expect(await takeAll(tail, 1, 6_000)).toMatchObject([{ message: "back" }]);
    expect(tail.problem).toBe("");
    tail.close();
  });

  it("reports a missing journalctl", async () => {
    const tail = new JournalTail({ units: ["api.service"], cursor: undefined, program: join(directory, "none") });
    tail.take(10, 0);
    await vi.waitFor(() => expect(tail.problem).toContain("ENOENT"));
    tail.close();
  });

  it("returns a few records at a time without losing any", async () => {
    install(Array.from({ length: 6_000 }, (_, index) => line(`m${index}`, `c${index}`)));
    const tail = new JournalTail({ units: ["api.service"], cursor: undefined, program });
    const records = await takeAll(tail, 6_000);
    tail.undo();
    expect(tail.take(10_000, 0).length).toBeGreaterThan(0);
    expect(tail.cursor).toBe("c5999");
    expect(records.map(({ message }) => message)).toEqual(Array.from({ length: 6_000 }, (_, index) => `m${index}`));
    tail.close();
  });
});

describe("recordIn()", () => {
  it.each([
    "",
    "null",
    "[]",
    "7",
    '{"MESSAGE":"x"}',
    '{"MESSAGE":null,"__CURSOR":"c"}',
    '{"MESSAGE":[0,1],"__CURSOR":"c"}',
    '{"MESSAGE":["a"],"__CURSOR":"c"}',
  ])("returns nothing for %j", (text) => {
    expect(recordIn(text, 100)).toBeUndefined();
  });
});
