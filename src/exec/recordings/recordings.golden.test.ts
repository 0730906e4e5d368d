/** Golden bytes of a terminal recording: asciicast v2, whose SHA-256 the audit keeps. */

import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { Recordings } from "./recordings.ts";

const commandId = "0b0e1f4c-8f1e-4f0e-a2ce-6c1a3d1f7a01";

const golden = String.raw`{"version":2,"width":80,"height":24,"timestamp":1767225600,"title":"top -b","env":{"TERM":"xterm-256color","SHELL":"/bin/sh"}}
[0,"o","$ gr"]
[0,"o","üße\r\n"]
[0.25,"r","100x40"]
[1.2505,"o","\u001b[1mdone\u001b[0m"]
`;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-recordings-"));
});
afterEach(async () => {
  vi.useRealTimers();
  await rm(directory, { recursive: true, force: true });
});

const openRecordings = (): Recordings =>
  new Recordings(directory, () => ({ enabled: true, maxSizeBytes: 1024 ** 2, maxAgeMs: 86_400_000 }), silentLogger);

describe("the recording format", () => {
  it("is written byte for byte, with the hash of the file", async () => {
    vi.useFakeTimers({ toFake: ["Date", "performance"], now: Date.UTC(2026, 0, 1) });
    const recording = await openRecordings().start({ commandId, columns: 80, rows: 24, terminalType: "xterm-256color", title: "top -b" });
    // A character of two bytes, in two parts.
    const line = Buffer.from("$ grüße\r\n");
    recording.output(line.subarray(0, 5));
    recording.output(line.subarray(5));
    vi.advanceTimersByTime(250);
    recording.resize(100, 40);
    vi.advanceTimersByTime(1_000.5);
    recording.output(Buffer.from("\u001b[1mdone\u001b[0m"));
    const sha256 = await recording.close();
    expect(recording.name).toBe(`${commandId}.cast`);
    expect(await readFile(join(directory, recording.name), "utf8")).toBe(golden);
    expect(sha256).toBe(createHash("sha256").update(golden).digest("hex"));
  });

  it("is read back unchanged", async () => {
    await writeFile(join(directory, `${commandId}.cast`), golden);
    const parts: Uint8Array[] = [];
    for await (const part of openRecordings().read(`${commandId}.cast`)) parts.push(part);
    expect(Buffer.concat(parts).toString()).toBe(golden);
  });
});
