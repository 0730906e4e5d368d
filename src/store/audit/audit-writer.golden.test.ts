/** Golden lines of the audit journal. Entries left by a killed process are committed by the next one, which may be a newer build. */

import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { type AuditEntry, blankAuditEntry } from "../signals/audit.ts";
import { temporaryFolder } from "../store.fixture.ts";
import { AuditWriter } from "./audit-writer.ts";

const entries: AuditEntry[] = [
  { ...blankAuditEntry(1_767_225_600_123_456, 987_654), kind: "exec", phase: "begun", command_id: "c-1", command: 'echo "ü"\n' },
  { ...blankAuditEntry(1_767_225_601_000_000, 988_531), kind: "exec", phase: "ended", command_id: "c-1", exit_code: 137, duration_ms: 877 },
];

const golden = String.raw`{"at":1767225600123456,"mono_ms":987654,"kind":"exec","phase":"begun","command_id":"c-1","caller":"","caller_from":"","through":"","question_id":"","target":"","place":"","command":"echo \"ü\"\n","rule":"","run_as":"","reason":"","exit_code":null,"stdout_bytes":0,"stderr_bytes":0,"duration_ms":0,"recording":"","details":"{}"}
{"at":1767225601000000,"mono_ms":988531,"kind":"exec","phase":"ended","command_id":"c-1","caller":"","caller_from":"","through":"","question_id":"","target":"","place":"","command":"","rule":"","run_as":"","reason":"","exit_code":137,"stdout_bytes":0,"stderr_bytes":0,"duration_ms":877,"recording":"","details":"{}"}
`;

describe("the audit journal format", () => {
  it("is written line by line", async () => {
    using folder = temporaryFolder();
    const file = folder.file("journal.jsonl");
    await using writer = await AuditWriter.open({
      file,
      commit: () => Promise.resolve(),
      isCommitted: () => Promise.resolve(false),
      log: silentLogger,
      // Committed entries are removed from the file.
      gatherMs: 60_000,
    });
    for (const entry of entries) await writer.write(entry);
    expect(readFileSync(file, "utf8")).toBe(golden);
  });

  it("is read back into the entries to commit", async () => {
    using folder = temporaryFolder();
    const file = folder.file("journal.jsonl");
    writeFileSync(file, golden);
    const committed: AuditEntry[] = [];
    await using _writer = await AuditWriter.open({
      file,
      commit: async (left) => void committed.push(...left),
      isCommitted: () => Promise.resolve(false),
      log: silentLogger,
    });
    expect(committed).toEqual(entries);
  });
});
