import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { openFiles } from "../../base/open-files.fixture.ts";
import type { CommandAuditEntry } from "../../exec/index.ts";
import { noExtraRules } from "../../redact/index.ts";
import { type AgentStore, openAgentStore } from "../../store/agent/index.ts";
import { type Engine, openEngine } from "../../store/engine/index.ts";
import { audit, linkAuditEntry, type Signal } from "../../store/signals/index.ts";
import { AuditLog } from "./audit-log.ts";

const dayMs = 86_400_000;

class TestClock implements Clock {
  nowMs = Date.UTC(2026, 0, 1);
  wallMs = (): number => this.nowMs;
  monotonicMs = (): number => this.nowMs;
}

let directory: string;
let engine: Engine;
let clock: TestClock;

async function openStore(log?: () => AuditLog): Promise<AgentStore> {
  return await openAgentStore(engine, {
    file: join(directory, "agent.duckdb"),
    signals: [audit] as unknown as Signal[],
    maxBytes: 64 * 1024 * 1024,
    clock,
    log: silentLogger,
    ...(log ? { beforePrune: (_signal, range) => log().beforePrune(range) } : {}),
  });
}

const headFile = (): string => join(directory, "audit-head.json");

function openLog(store: AgentStore): Promise<AuditLog> {
  return AuditLog.open({
    store,
    headFile: headFile(),
    colonyHeadsFile: `${headFile()}.colony`,
    journalFile: `${headFile()}.journal`,
    redaction: () => noExtraRules,
    clock,
    log: silentLogger,
  });
}

function entry(commandId: string, phase: CommandAuditEntry["phase"], more: Partial<CommandAuditEntry> = {}): CommandAuditEntry {
  return {
    phase,
    commandId,
    kind: "exec",
    caller: { name: "local:uid=1000", from: "unix socket", through: "cli", questionId: "" },
    target: "host",
    where: "host",
    command: "ps aux",
    rule: "diagnostics",
    user: "nobody",
    reason: phase === "ended" ? "exited" : "",
    exitCode: phase === "ended" ? 0 : null,
    stdoutBytes: 12,
    stderrBytes: 0,
    durationMs: 3.7,
    recording: "",
    ...more,
  };
}

async function fill(log: AuditLog, commands: number): Promise<void> {
  for (let number = 1; number <= commands; number++) {
    await log.write(entry(`c${number}`, "begun"));
    await log.write(entry(`c${number}`, "ended"));
  }
}

/** Writes a chain, tampers with the file, and verifies it as the next start of the agent does. */
async function problemsAfter(commands: number, statements: readonly string[], more: { removeHeadFile?: boolean } = {}): Promise<string[]> {
  {
    await using store = await openStore();
    await using log = await openLog(store);
    await fill(log, commands);
  }
  {
    await using store = await openStore();
    for (const statement of statements) await store.query(statement);
  }
  if (more.removeHeadFile) rmSync(headFile());
  await using store = await openStore();
  await using log = await openLog(store);
  return (await log.verify()).problems.map(({ kind, entry: number }) => `${kind} ${number}`);
}

describe("AuditLog", () => {
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), "coral-audit-"));
    clock = new TestClock();
    engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 * 1024, threads: 2, log: silentLogger });
  });

  afterEach(async () => {
    await engine.close();
    rmSync(directory, { recursive: true, force: true });
  });

  it("writes a chain that verifies, over restarts and with many writers at once", async () => {
    for (let start = 0; start < 3; start++) {
      await using store = await openStore();
      await using log = await openLog(store);
      const ids = Array.from({ length: 40 }, (_, index) => `s${start}-${index}`);
      await Promise.all(ids.map((id) => log.write(entry(id, "begun")).then(() => log.write(entry(id, "ended")))));
      const report = await log.verify();
      expect(report).toMatchObject({ entries: (start + 1) * 80, firstEntry: 1, problems: [], moreProblems: 0 });
      expect(report.head).toEqual({ entry: (start + 1) * 80, hash: log.head.hash });
    }
  });

  it("has each entry on disk before write() resolves, and in the store a moment later", async () => {
    await using store = await openStore();
    await using log = await openLog(store);
    await log.write(entry("c1", "begun"));
    expect(readFileSync(`${headFile()}.journal`, "utf8")).toContain('"command_id":"c1"');
    await log.settled();
    const [row] = await store.query("SELECT kind, phase, caller, command, rule, run_as, duration_ms, exit_code FROM audit");
    expect(row).toEqual({
      kind: "exec",
      phase: "begun",
      caller: "local:uid=1000",
      command: "ps aux",
      rule: "diagnostics",
      run_as: "nobody",
      duration_ms: 4,
      exit_code: null,
    });
  });

  it("truncates and redacts entries of any length and content", async () => {
    await using store = await openStore();
    await using log = await openLog(store);
    const long = "\u0000\ud800x\u001b[2J".repeat(100_000);
    await log.write(entry("c1", "begun", { command: "mysql -phunter22 | tee", target: long, reason: long, user: long }));
    await log.write(entry("c2", "begun", { command: long, stdoutBytes: Number.NaN, durationMs: -5, exitCode: 1.5 }));
    expect((await log.verify()).problems).toEqual([]);
    const rows = await store.query("SELECT * FROM audit ORDER BY seq");
    expect(JSON.stringify(rows)).not.toContain("hunter22");
    for (const row of rows) expect(JSON.stringify(row).length).toBeLessThan(20_000);
  });

  it("rejects writes beyond the queue limit, and retries entries that the store rejected without breaking the chain", async () => {
    await using store = await openStore();
    const failing = { ...bound(store), fails: false };
    const log = await AuditLog.open({
      store: failing,
      headFile: headFile(),
      colonyHeadsFile: `${headFile()}.colony`,
      journalFile: `${headFile()}.journal`,
      redaction: () => noExtraRules,
      clock,
      log: silentLogger,
    });
    await log.write(entry("c1", "begun"));
    failing.fails = true;
    await log.write(entry("c2", "begun"));
    failing.fails = false;
    await log.write(entry("c3", "begun"));
    await log.settled();
    const flood = await Promise.allSettled(Array.from({ length: 1_200 }, (_, index) => log.write(entry(`f${index}`, "begun"))));
    const refused = flood.filter((one) => one.status === "rejected");
    expect(refused.length).toBe(200);
    expect(refused[0]).toMatchObject({ reason: { code: "exhausted" } });
    expect(await log.verify()).toMatchObject({ entries: 1_003, problems: [] });
    await log.close();
  });

  it("closes commands that a killed agent left open as lost, once", async () => {
    {
      await using store = await openStore();
      await using log = await openLog(store);
      await log.write(entry("done", "begun"));
      await log.write(entry("done", "ended"));
      await log.write(entry("held", "held"));
      await log.write(entry("cut", "begun", { target: "service api", recording: "r1" }));
    }
    for (let start = 0; start < 2; start++) {
      await using store = await openStore();
      await using log = await openLog(store);
      const rows = await store.query("SELECT command_id, target, recording FROM audit WHERE reason = 'lost' ORDER BY command_id");
      expect(rows).toEqual([
        { command_id: "cut", target: "service api", recording: "r1" },
        { command_id: "held", target: "host", recording: "" },
      ]);
      expect((await log.verify()).problems).toEqual([]);
    }
  });

  it.each([
    ["a changed command", ["UPDATE audit SET command = 'ls' WHERE seq = 5"], ["changed 5"]],
    ["a changed exit code", ["UPDATE audit SET exit_code = 1 WHERE seq = 6"], ["changed 6"]],
    ["a changed time", [`UPDATE audit SET "time" = "time" + INTERVAL 1 SECOND WHERE seq = 6`], ["changed 6"]],
    ["a changed hash", ["UPDATE audit SET hash = repeat('0', 64) WHERE seq = 6"], ["changed 6", "unlinked 7"]],
    ["a removed row", ["DELETE FROM audit WHERE seq = 5"], ["missing 5"]],
    [
      "removed rows with later ones renumbered",
      ["DELETE FROM audit WHERE seq = 5", "UPDATE audit SET seq = seq - 1 WHERE seq > 5"],
      ["moved 6"],
    ],
    ["a removed beginning", ["DELETE FROM audit WHERE seq <= 3"], ["prefix-removed 1"]],
    ["a removed end", ["DELETE FROM audit WHERE seq > 17"], ["missing 18"]],
    [
      "a removed end with the sequence counter reset",
      ["DELETE FROM audit WHERE seq > 17", "UPDATE internal.heads SET least_next_seq = 18 WHERE signal = 'audit'"],
      ["cut 18"],
    ],
    ["everything removed", ["DELETE FROM audit"], ["prefix-removed 1"]],
    [
      "swapped rows",
      ["UPDATE audit SET seq = 1000 WHERE seq = 5", "UPDATE audit SET seq = 5 WHERE seq = 6", "UPDATE audit SET seq = 6 WHERE seq = 1000"],
      ["moved 6", "missing 5", "moved 5", "moved 5", "missing 6"],
    ],
    ["an added row", ["INSERT INTO audit SELECT * FROM audit WHERE seq = 5"], ["repeated 5"]],
  ])("finds %s", async (_what, statements, expected) => {
    const found = await problemsAfter(10, statements);
    expect(found).toEqual(expect.arrayContaining(expected));
  });

  it("records a truncated chain in the chain itself", async () => {
    expect((await problemsAfter(3, ["DELETE FROM audit WHERE seq > 4"]))[0]).toBe("missing 5");
    await using store = await openStore();
    const rows = await store.query("SELECT reason, details FROM audit WHERE kind = 'chain'");
    expect(rows).toEqual([{ reason: "broken", details: expect.stringContaining("it ends at entry 4, but entry 6 was written") }]);
  });

  it("cannot detect a chain that was rewritten as a whole together with its head file", async () => {
    {
      await using store = await openStore();
      await using log = await openLog(store);
      await fill(log, 3);
    }
    const rewritten = await rewriteFrom(2, "true");
    rmSync(headFile());
    await using store = await openStore();
    await using log = await openLog(store);
    expect((await log.verify()).problems).toEqual([]);
    expect(await log.linksOf([1, 6])).toEqual([expect.objectContaining({ entry: 1 }), rewritten]);
  });

  it("detects a rewritten chain by its head file", async () => {
    {
      await using store = await openStore();
      await using log = await openLog(store);
      await fill(log, 3);
    }
    await rewriteFrom(2, "true");
    await using store = await openStore();
    await using log = await openLog(store);
    const rows = await store.query("SELECT details FROM audit WHERE kind = 'chain'");
    expect(rows).toEqual([{ details: expect.stringContaining("entry 6 differs from the one that was written") }]);
    expect((await log.verify()).problems).toMatchObject([{ kind: "cut", entry: 7 }]);
  });

  it("records how far retention pruned, and reports a prefix that was deleted by hand", async () => {
    let log: AuditLog | undefined;
    const current = (): AuditLog => log as AuditLog;
    {
      await using store = await openStore(current);
      log = await openLog(store);
      await fill(log, 5);
      clock.nowMs += 60 * dayMs;
      await fill(log, 5);
      clock.nowMs += 30 * dayMs + 60_000;
      await store.prune();
      expect(await log.verify()).toMatchObject({ firstEntry: 1, entries: 20 });
      clock.nowMs += 2 * dayMs;
      await store.prune();
      expect(await log.verify()).toMatchObject({ firstEntry: 11, entries: 11, problems: [] });
      expect(store.heads().get("audit")).toEqual({ oldestSeq: 11, nextSeq: 22 });
      await log.close();
    }
    {
      await using store = await openStore();
      log = await openLog(store);
      expect((await log.verify()).problems).toEqual([]);
      await store.query("DELETE FROM audit WHERE seq = 11");
      expect((await log.verify()).problems.map(({ kind }) => kind)).toEqual(["prefix-removed"]);
      await store.query("DELETE FROM audit WHERE kind = 'pruned'");
      expect((await log.verify()).problems.map(({ kind }) => kind)).toEqual(["prefix-removed", "cut"]);
      await log.close();
    }
  });

  it("prunes nothing while no audit log records how far", async () => {
    await using store = await openStore();
    await using log = await openLog(store);
    await fill(log, 2);
    clock.nowMs += 200 * dayMs;
    await store.prune();
    expect(await log.verify()).toMatchObject({ firstEntry: 1, entries: 4, problems: [] });
  });

  it("closes its journal when opening fails", async () => {
    await using store = await openStore();
    const query: AgentStore["query"] = (sql, ...rest) =>
      sql.includes("'begun'") ? Promise.reject(new Error("gone")) : store.query(sql, ...rest);
    await expect(openLog({ ...bound(store), query } as unknown as AgentStore)).rejects.toThrow("gone");
    expect(openFiles()).not.toContain(`${headFile()}.journal`);
  });

  it("starts a new chain with a new store, and links it to the old one", async () => {
    const first = await openStore();
    const current = { store: first };
    const swapping = swappingStore(current);
    const log = await AuditLog.open({
      store: swapping,
      headFile: headFile(),
      colonyHeadsFile: `${headFile()}.colony`,
      journalFile: `${headFile()}.journal`,
      redaction: () => noExtraRules,
      clock,
      log: silentLogger,
    });
    await fill(log, 2);
    await log.settled();
    const before = log.head;
    await first.close();
    rmSync(join(directory, "agent.duckdb"));
    await using second = await openStore();
    current.store = second;
    await log.write(entry("c1", "begun"));
    await log.settled();
    expect(log.head).toMatchObject({ chainId: second.epoch, entry: 2 });
    expect(await log.verify()).toMatchObject({ entries: 2, problems: [] });
    const rows = await second.query("SELECT details FROM audit WHERE reason = 'begun-anew'");
    expect(rows).toEqual([{ details: JSON.stringify({ before }) }]);
    await log.close();
  });

  it("records at its start that the store was removed", async () => {
    {
      await using store = await openStore();
      await using log = await openLog(store);
      await fill(log, 2);
    }
    rmSync(join(directory, "agent.duckdb"));
    await using store = await openStore();
    await using log = await openLog(store);
    expect(log.head.entry).toBe(1);
    expect(await store.query("SELECT details FROM audit")).toEqual([{ details: expect.stringContaining('"entry":4') }]);
  });

  const anchorsOf = async (store: AgentStore) => (await store.query("SELECT details FROM audit WHERE kind = 'anchor' ORDER BY seq")).length;
  const colonyHead = (entry: number, hash: string, chainId = "chain") => ({ colonyId: "shop", chainId, entry, hash });

  it("keeps every head of the colony's chain, and records one in its own chain every ten minutes", async () => {
    await using store = await openStore();
    {
      await using log = await openLog(store);
      await log.anchor(colonyHead(0, "none yet"));
      await log.anchor(colonyHead(5, "five"));
      await log.anchor(colonyHead(5, "five"));
      await log.anchor(colonyHead(6, "six"));
      await log.settled();
      expect(await anchorsOf(store)).toBe(1);
      clock.nowMs += 11 * 60_000;
      await log.anchor(colonyHead(7, "seven"));
    }
    await using log = await openLog(store);
    expect(await anchorsOf(store)).toBe(2);
    expect(await log.anchors(10)).toEqual([colonyHead(7, "seven"), colonyHead(6, "six"), colonyHead(5, "five")]);
  });

  it.each([
    ["ends earlier", colonyHead(3, "three")],
    ["has a different entry with that number", colonyHead(6, "other")],
    ["has another id", colonyHead(0, "start", "new-chain")],
  ])("records the last head at once when the colony's chain %s", async (_case, next) => {
    await using store = await openStore();
    await using log = await openLog(store);
    await log.anchor(colonyHead(5, "five"));
    await log.anchor(colonyHead(6, "six"));
    await log.anchor(next);
    await log.settled();
    // Without the file, only the anchors in the chain remain.
    rmSync(`${headFile()}.colony`);
    await using again = await openLog(store);
    expect(await again.anchors(10)).toContainEqual(colonyHead(6, "six"));
  });

  it("lets the colony's pull skip a deleted row", async () => {
    {
      await using store = await openStore();
      await using log = await openLog(store);
      await fill(log, 3);
    }
    await using store = await openStore();
    await store.query("DELETE FROM audit WHERE seq = 3");
    const limits = { maxBytes: 1_000_000, maxRows: 100 };
    expect(await store.readAfter("audit", 0, limits)).toMatchObject({ oldestSeq: 1, batch: { firstSeq: 1, lastSeq: 2 } });
    expect(await store.readAfter("audit", 2, limits)).toMatchObject({ oldestSeq: 4, nextSeq: 7, batch: { firstSeq: 4, lastSeq: 6 } });
    await store.query("DELETE FROM audit WHERE seq > 4");
    expect(await store.readAfter("audit", 4, limits)).toMatchObject({ oldestSeq: 7, nextSeq: 7 });
  });

  it("opens with a head file that is not valid JSON", async () => {
    writeFileSync(headFile(), "{ not json");
    await using store = await openStore();
    {
      await using log = await openLog(store);
      await log.write(entry("c1", "begun"));
    }
    expect(existsSync(headFile())).toBe(true);
    expect(JSON.parse(readFileSync(headFile(), "utf8"))).toMatchObject({ entry: 1, chainId: store.epoch });
  });
});

function swappingStore(current: { store: AgentStore }): Pick<AgentStore, "epoch" | "heads" | "query" | "append"> {
  return {
    get epoch() {
      return current.store.epoch;
    },
    heads: () => current.store.heads(),
    query: (...args) => current.store.query(...args),
    append: (...args) => current.store.append(...args),
  };
}

function bound(store: AgentStore) {
  return {
    epoch: store.epoch,
    heads: () => store.heads(),
    query: (...args: Parameters<AgentStore["query"]>) => store.query(...args),
    append(this: { fails?: boolean }, ...args: Parameters<AgentStore["append"]>) {
      if (this.fails) return Promise.reject(new Error("no space"));
      return store.append(...args);
    },
  } as Pick<AgentStore, "epoch" | "heads" | "query" | "append">;
}

/** Rewrites the chain with valid hashes, as an attacker with the file and this code could. */
async function rewriteFrom(first: number, command: string): Promise<{ entry: number; hash: string }> {
  await using store = await openStore();
  const rows = await store.query("SELECT * FROM audit ORDER BY seq");
  let last = { entry: 0, hash: String(rows[0]?.["prev_hash"]) };
  for (const row of rows) {
    const { seq: _seq, time, prev_hash: _previous, hash: _hash, entry: number, ...fields } = row;
    const text = Number(number) >= first ? command : String(fields["command"]);
    const linked = linkAuditEntry(last, { ...fields, at: Number(time), command: text } as never);
    await store.query("UPDATE audit SET command = ?, prev_hash = ?, hash = ? WHERE seq = ?", [
      text,
      linked.prev_hash,
      linked.hash,
      linked.entry,
    ]);
    last = { entry: linked.entry, hash: linked.hash };
  }
  return last;
}
