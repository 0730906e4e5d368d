/**
 * Golden rows of an audit chain. Column names and values are hashed, so renaming a column or storing a value differently breaks every
 * stored chain. New columns must be nullable: null is not hashed.
 */

import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { openAgentStore } from "../agent/agent-store.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { type AuditEntry, type AuditRow, audit, auditChainColumns, auditChainRow, blankAuditEntry, linkAuditEntry } from "./audit.ts";
import type { Signal } from "./define-signal.ts";
import { ChainCheck, chainStart } from "./hash-chain.ts";

const chainId = "5f0c7c1e-3a52-4f7e-9d0b-6a1f0e6f2d11";

const ended: AuditEntry = {
  at: 1_767_225_600_123_456,
  mono_ms: 987_654,
  kind: "exec",
  phase: "ended",
  command_id: "0b0e1f4c-8f1e-4f0e-a2ce-6c1a3d1f7a01",
  caller: "token:ops-1",
  caller_from: "203.0.113.9:51234",
  through: "cli",
  question_id: "q-7",
  target: "host",
  place: "host",
  command: "ps aux | grep 'ü'",
  rule: "diagnostics",
  run_as: "nobody",
  reason: "exited",
  exit_code: 0,
  stdout_bytes: 1_234,
  stderr_bytes: 5,
  duration_ms: 37,
  recording: "0b0e1f4c-8f1e-4f0e-a2ce-6c1a3d1f7a01.cast",
  details: '{"recordingSha256":"00ff"}',
};

const denied: AuditEntry = {
  at: 1_767_225_601_000_000,
  mono_ms: 988_531,
  kind: "exec",
  phase: "denied",
  command_id: "",
  caller: "",
  caller_from: "",
  through: "",
  question_id: "",
  target: "",
  place: "",
  command: "",
  rule: "",
  run_as: "",
  reason: "",
  exit_code: null,
  stdout_bytes: 0,
  stderr_bytes: 0,
  duration_ms: 0,
  recording: "",
  details: "{}",
};

const startHash = "5917e4a7d196f12d9f99984c88acfcfcb7abf665eb4aa8f3017feabbe8123e03";
const endedHash = "394c63c2f1ad2d2bd571c8dd4e9b153d5812f5b03d703c27b1c58f5c3cb18c47";
const deniedHash = "ea73c1a9e9d992960d8b51dd96ff3cd3a0b56a2af8df96b69563356e82b9469f";

const golden: AuditRow[] = [
  { ...ended, entry: 1, prev_hash: startHash, hash: endedHash },
  { ...denied, entry: 2, prev_hash: endedHash, hash: deniedHash },
];

describe("the audit chain", () => {
  it("links entries with the golden hashes", () => {
    const first = linkAuditEntry(chainStart(chainId), ended);
    const blank = { ...blankAuditEntry(denied.at, denied.mono_ms), kind: "exec", phase: "denied" };
    expect([first, linkAuditEntry(first, blank)]).toEqual(golden);
  });

  it("verifies golden rows after a round trip through an agent's table", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const signals = [audit] as unknown as Signal[];
    const clock = new TestClock();
    const options = { file: folder.file("agent.duckdb"), signals, maxBytes: 1024 ** 3, clock, log: silentLogger };
    await using store = await openAgentStore(engine, options);
    await store.append(audit, golden);
    const check = new ChainCheck(chainStart(chainId));
    for (const row of await store.query(`SELECT ${auditChainColumns} FROM audit ORDER BY seq`)) check.add(auditChainRow(row));
    expect(check.finish([], { entry: 2, hash: deniedHash })).toMatchObject({ entries: 2, problems: [] });
  });
});
