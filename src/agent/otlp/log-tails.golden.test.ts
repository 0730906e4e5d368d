/** The golden file of offsets in log files: a new build resumes where the one before it stopped. */

import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { LogTails } from "./log-tails.ts";

let directory: string;
let stored: string[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-tails-golden-"));
  stored = [];
});
afterEach(() => rmSync(directory, { recursive: true }));

const logFile = (): string => join(directory, "a.log");
const positionsFile = (): string => join(directory, "log-positions.json");

function open(): LogTails {
  return new LogTails({
    services: () => [{ service: "api", files: [logFile()], units: [], fromStart: true }],
    segments: () => ({ append: async (_signal, { body }) => void stored.push(Buffer.from(body).toString("utf8")) }),
    file: positionsFile(),
    owner: undefined,
    hostName: "web-1",
    clock: { wallMs: () => Date.UTC(2026, 0, 1), monotonicMs: () => 1_000_000 },
    log: silentLogger,
  });
}

/** `head` and `last`: the first bytes of the file and those before the offset, in hex. */
function golden(): string {
  const { dev, ino } = statSync(logFile());
  const read = Buffer.from("INFO first line\n").toString("hex");
  return `{"files":{"${logFile()}":{"device":${dev},"inode":${ino},"offsetBytes":16,"head":"${read}","last":"${read}","service":"api"}},"journals":{}}`;
}

describe("the file of log offsets", () => {
  it("is written byte for byte", async () => {
    writeFileSync(logFile(), "INFO first line\n");
    {
      await using tails = open();
      await tails.round();
    }
    expect(readFileSync(positionsFile(), "utf8")).toBe(golden());
  });

  it("is read back: only lines after the offset are read", async () => {
    writeFileSync(logFile(), "INFO first line\nINFO second line\n");
    writeFileSync(positionsFile(), golden());
    await using tails = open();
    await tails.round();
    expect(stored).toHaveLength(1);
    expect(stored[0]).toContain("INFO second line");
    expect(stored[0]).not.toContain("INFO first line");
  });
});
