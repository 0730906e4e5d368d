/**
 * The agent's audit: a chain of hashes in its store, pulled by the colony like any signal. Nothing else writes the signal `audit`. What becomes of
 * the chain when somebody touches the file is told by `verify` here, by the colony's copy, and by the two together.
 */

import { readFile } from "node:fs/promises";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { type FileOwner, writePrivateFile } from "../../config/index.ts";
import type { CommandAudit, CommandAuditEntry } from "../../exec/index.ts";
import { bounded, type RedactionRules, redactCommand } from "../../redact/index.ts";
import { type AgentStore } from "../../store/agent/index.ts";
import { AuditWriter } from "../../store/audit/index.ts";
import { type Row } from "../../store/engine/index.ts";
import {
  type AuditEntry,
  type AuditRow,
  audit,
  auditChainColumns,
  auditChainRow,
  blankAuditEntry,
  ChainCheck,
  type ChainLink,
  type ChainReport,
  chainStart,
  linkAuditEntry,
} from "../../store/signals/index.ts";
import { type SeqRange } from "../../store/tables/index.ts";

export interface AuditLogOptions {
  store: Pick<AgentStore, "epoch" | "append" | "query" | "heads">;
  /** Holds entries until they are committed. */
  journalFile: string;
  /** Whom files are to belong to; absent: whoever runs this. */
  owner?: FileOwner | undefined;
  /** Where the last entry is remembered outside the database, so that a cut shows also while the colony is away. */
  headFile: string;
  /** On top of the built-in ones. */
  redaction: () => RedactionRules;
  clock: Clock;
  log: Logger;
}

/** What somebody does beside commands, such as a capture. Texts are bounded here. */
export type AuditNote = Partial<AuditEntry> & Pick<AuditEntry, "kind" | "phase">;

/** Commands that may have been open when the agent was killed. */
const maxLost = 999;
const maxTextLength = 512;
const maxDetailsLength = 8_192;
const anchorIntervalMs = 10 * 60_000;

export class AuditLog implements CommandAudit, AsyncDisposable {
  readonly #options: AuditLogOptions;
  #chainId: string;
  #head: ChainLink;
  #writer: AuditWriter | undefined;
  #remembering: Promise<void> | undefined;
  #anchoredAtMs = Number.NEGATIVE_INFINITY;
  #anchored = "";

  private constructor(options: AuditLogOptions, head: ChainLink) {
    this.#options = options;
    this.#chainId = options.store.epoch;
    this.#head = head;
  }

  /** Finds the end of the chain, tells of one that was cut, and closes what a killed agent has left open as `lost`. */
  static async open(options: AuditLogOptions): Promise<AuditLog> {
    const { store, headFile, log } = options;
    const remembered = await readHeadFile(headFile);
    const last = await lastLink(store);
    const opened = new AuditLog(options, headOf(store, last, remembered));
    opened.#writer = await AuditWriter.open({
      file: options.journalFile,
      owner: options.owner,
      commit: (entries) => opened.#commit(entries),
      isCommitted: (entry) => isStored(store, entry),
      log,
    });
    try {
      await opened.#begin(remembered, last);
    } catch (error) {
      await opened.close();
      throw error;
    }
    return opened;
  }

  /** The last entry on disk. */
  get head(): ChainLink & { chainId: string } {
    return { chainId: this.#chainId, ...this.#head };
  }

  /** Resolves when the entry is on disk; rejects when it cannot be kept. */
  write(entry: CommandAuditEntry): Promise<void> {
    const { caller } = entry;
    const details = entry.recordingSha256 ? { recordingSha256: entry.recordingSha256 } : {};
    return this.note({
      kind: entry.kind,
      phase: entry.phase,
      command_id: entry.commandId,
      caller: caller.name,
      caller_from: caller.from,
      through: caller.through,
      question_id: caller.questionId,
      target: entry.target,
      place: entry.where,
      command: entry.command,
      rule: entry.rule,
      run_as: entry.user,
      reason: entry.reason,
      exit_code: entry.exitCode,
      stdout_bytes: entry.stdoutBytes,
      stderr_bytes: entry.stderrBytes,
      duration_ms: entry.durationMs,
      recording: entry.recording,
      details: JSON.stringify(details),
    });
  }

  /** As `write`, for everything else. */
  async note(note: AuditNote): Promise<void> {
    await this.#writer?.write(this.#entryOf(note));
  }

  /** Remembers how far the colony's own chain is, now and then: it cannot be rewritten unseen while an agent knows a later hash. */
  async anchor(chainId: string, link: ChainLink): Promise<void> {
    const text = `${chainId} ${link.entry} ${link.hash}`;
    const nowMs = this.#options.clock.monotonicMs();
    if (link.entry === 0 || text === this.#anchored || nowMs - this.#anchoredAtMs < anchorIntervalMs) return;
    this.#anchoredAtMs = nowMs;
    this.#anchored = text;
    await this.note({ kind: "anchor", phase: "noted", target: "colony", details: JSON.stringify({ chainId, ...link }) });
  }

  /** For the store's retention: the entry that tells how far is on disk before anything goes. */
  async beforePrune({ firstSeq, lastSeq }: SeqRange): Promise<void> {
    const [row] = await this.#options.store.query(`SELECT entry, hash FROM "${audit.name}" WHERE seq = ?`, [lastSeq]);
    // What is not there cannot be vouched for; the check of the chain tells of it.
    if (!row) return;
    const details = JSON.stringify({ first: firstSeq, entry: Number(row["entry"]), hash: String(row["hash"]) });
    await this.note({ kind: "pruned", phase: "noted", target: "chain", details });
    await this.settled();
  }

  /** Walks the whole chain. */
  async verify(): Promise<ChainReport> {
    const { store, headFile } = this.#options;
    await this.settled();
    const check = new ChainCheck(chainStart(this.#chainId));
    const pruned: ChainLink[] = [];
    const before = this.#head;
    let lastEntry = 0;
    for (let after = 0; ; ) {
      const rows = await store.query(`SELECT ${auditChainColumns} FROM "${audit.name}" WHERE seq > ? ORDER BY seq, rowid LIMIT 5000`, [
        after,
      ]);
      for (const row of rows) {
        check.add(auditChainRow(row));
        const link = prunedLink(row);
        if (link) pruned.push(link);
        const found = brokenNote(row);
        if (found !== undefined) check.report("cut", Number(row["entry"]), found);
      }
      const last = Number(rows.at(-1)?.["seq"] ?? 0);
      lastEntry = Math.max(lastEntry, last);
      if (rows.length < 5_000 || last <= after) break;
      after = last;
    }
    await this.settled();
    if (lastEntry > this.#head.entry)
      check.report("added", this.#head.entry + 1, `entries after ${this.#head.entry}, the last one that was written, were added`);
    const remembered = await readHeadFile(headFile);
    return check.finish(pruned, remembered?.chainId === this.#chainId ? laterOf(remembered, before) : before);
  }

  /** The hashes of some entries, as they are stored now. */
  async linksOf(entries: readonly number[]): Promise<ChainLink[]> {
    const numbers = entries.filter((entry) => Number.isSafeInteger(entry) && entry > 0).slice(0, 1_000);
    if (numbers.length === 0) return [];
    await this.settled();
    const rows = await this.#options.store.query(
      `SELECT entry, hash FROM "${audit.name}" WHERE entry IN (${numbers.join(", ")}) ORDER BY entry`,
    );
    return rows.map((row) => ({ entry: Number(row["entry"]), hash: String(row["hash"]) }));
  }

  /** What it was told of the colony's chain, newest first. */
  async anchors(limit: number): Promise<(ChainLink & { chainId: string })[]> {
    await this.settled();
    const rows = await this.#options.store.query(
      `SELECT details FROM "${audit.name}" WHERE kind = 'anchor' ORDER BY seq DESC LIMIT ${Math.floor(limit)}`,
    );
    return rows.flatMap((row) => {
      const link = linkIn(row["details"]);
      return link ? [link] : [];
    });
  }

  /** Resolves when what was written so far can be queried. */
  async settled(): Promise<void> {
    await this.#writer?.settled();
    await this.#remembering;
  }

  async close(): Promise<void> {
    await this.#writer?.close();
    await this.#remembering;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #entryOf(note: AuditNote): AuditEntry {
    const { clock, redaction } = this.#options;
    const said = { ...blankAuditEntry(Math.round(clock.wallMs() * 1_000), Math.round(clock.monotonicMs())), ...note };
    for (const [name, value] of Object.entries(said)) {
      if (typeof value === "string" && name !== "details") Object.assign(said, { [name]: bounded(value, maxTextLength) });
    }
    for (const name of ["stdout_bytes", "stderr_bytes", "duration_ms"] as const) said[name] = wholeNumber(said[name]);
    said.exit_code = said.exit_code === null ? null : Math.trunc(said.exit_code);
    // Redacted already where it came from; a mistake there must not end up in a place from which nothing is ever taken out.
    said.command = redactCommand(note.command ?? "", redaction());
    said.details = boundedDetails(said.details);
    return said;
  }

  async #commit(group: readonly AuditEntry[]): Promise<void> {
    const { store, clock } = this.#options;
    const entries = [...group];
    if (store.epoch !== this.#chainId) {
      // The store was begun anew: so is the chain, and it says which one it follows.
      const before = this.head;
      this.#chainId = store.epoch;
      this.#head = chainStart(store.epoch);
      const blank = blankAuditEntry(Math.round(clock.wallMs() * 1_000), Math.round(clock.monotonicMs()));
      entries.unshift({ ...blank, ...begunAnew(before) });
    }
    const rows: AuditRow[] = [];
    let link = this.#head;
    for (const said of entries) {
      const row = linkAuditEntry(link, said);
      rows.push(row);
      link = row;
    }
    await store.append(audit, rows);
    this.#head = { entry: link.entry, hash: link.hash };
    this.#remembering ??= this.#remember();
  }

  /** Behind the entries, one write at a time: a remembered place that lies behind finds less, never something wrong. Never rejects. */
  async #remember(): Promise<void> {
    const { headFile, log } = this.#options;
    for (let written = ""; ; ) {
      const text = `${JSON.stringify(this.head)}\n`;
      if (text === written) break;
      // Not worth failing for: the colony's copy has it, too.
      await writePrivateFile(headFile, text).catch((error: unknown) =>
        log.warn(`Cannot remember the end of the audit in "${headFile}"`, { error }),
      );
      written = text;
    }
    this.#remembering = undefined;
  }

  async #begin(remembered: (ChainLink & { chainId: string }) | undefined, last: ChainLink): Promise<void> {
    const { store, log } = this.#options;
    if (remembered && remembered.chainId !== store.epoch) await this.note(begunAnew(remembered));
    const problem = await this.#cutSince(remembered, last);
    if (problem !== undefined) {
      log.error(`The audit is not whole: ${problem}`);
      await this.note({
        kind: "chain",
        phase: "noted",
        target: "chain",
        reason: "broken",
        details: JSON.stringify({ problem, remembered }),
      });
    }
    await this.#closeLost();
    await this.settled();
  }

  async #cutSince(remembered: (ChainLink & { chainId: string }) | undefined, last: ChainLink): Promise<string | undefined> {
    if (!remembered || remembered.chainId !== this.#chainId) return undefined;
    if (remembered.entry > last.entry) return `it ends with entry ${last.entry}, and entry ${remembered.entry} was written before`;
    const [link] = await this.linksOf([remembered.entry]);
    if (link && link.hash !== remembered.hash) return `entry ${remembered.entry} is not the one that was written`;
    return undefined;
  }

  async #closeLost(): Promise<void> {
    const open = await this.#options.store.query(
      `SELECT kind, command_id, caller, caller_from, through, question_id, target, place, command, rule, run_as, recording, max("time") AS "time"
       FROM "${audit.name}" WHERE phase IN ('begun', 'held') AND command_id NOT IN (
         SELECT command_id FROM "${audit.name}" WHERE phase IN ('ended', 'denied'))
       GROUP BY ALL ORDER BY "time" LIMIT ${maxLost}`,
    );
    const seen = new Set<string>();
    for (const row of open.reverse()) {
      const id = String(row["command_id"]);
      if (seen.has(id)) continue;
      seen.add(id);
      await this.note({ ...lostOf(row), phase: "ended", reason: "lost" });
    }
  }
}

function lostOf(row: Row): Omit<AuditNote, "phase"> {
  const text = (name: string): string => String(row[name] ?? "");
  return {
    kind: text("kind"),
    command_id: text("command_id"),
    caller: text("caller"),
    caller_from: text("caller_from"),
    through: text("through"),
    question_id: text("question_id"),
    target: text("target"),
    place: text("place"),
    command: text("command"),
    rule: text("rule"),
    run_as: text("run_as"),
    recording: text("recording"),
  };
}

async function isStored(store: AuditLogOptions["store"], { command_id, kind, phase, at, mono_ms }: AuditEntry): Promise<boolean> {
  const rows = await store.query(
    `SELECT 1 FROM "${audit.name}" WHERE command_id = ? AND kind = ? AND phase = ? AND epoch_us("time") = ? AND mono_ms = ? LIMIT 1`,
    [command_id, kind, phase, at, mono_ms],
  );
  return rows.length > 0;
}

async function lastLink(store: AuditLogOptions["store"]): Promise<ChainLink> {
  const [row] = await store.query(`SELECT entry, hash FROM "${audit.name}" ORDER BY seq DESC LIMIT 1`);
  return row ? { entry: Number(row["entry"]), hash: String(row["hash"]) } : chainStart(store.epoch);
}

/** Sequences are never used again, also when the rows that had them were removed: the chain goes on after the gap, which then shows. */
function headOf(store: AuditLogOptions["store"], last: ChainLink, remembered: (ChainLink & { chainId: string }) | undefined): ChainLink {
  const entry = (store.heads().get(audit.name)?.nextSeq ?? 1) - 1;
  if (last.entry === entry) return last;
  return { entry, hash: remembered?.chainId === store.epoch && remembered.entry === entry ? remembered.hash : last.hash };
}

function laterOf(a: ChainLink, b: ChainLink): ChainLink {
  return a.entry > b.entry ? a : b;
}

function begunAnew(before: ChainLink & { chainId: string }) {
  return { kind: "chain", phase: "noted", target: "chain", reason: "begun-anew", details: JSON.stringify({ before }) };
}

/** What was found at an earlier start: the entries after it belong together again, so that nothing else would tell. */
export function brokenNote(row: Row): string | undefined {
  if (row["kind"] !== "chain" || row["reason"] !== "broken") return undefined;
  try {
    const { problem } = JSON.parse(String(row["details"])) as { problem?: unknown };
    return `found at a start of the agent: ${String(problem)}`;
  } catch {
    return "found at a start of the agent: it is not whole";
  }
}

/** What an entry of kind `pruned` vouches for. */
function prunedLink(row: Row): ChainLink | undefined {
  return row["kind"] === "pruned" && row["target"] === "chain" ? linkIn(row["details"]) : undefined;
}

function linkIn(text: unknown): (ChainLink & { chainId: string }) | undefined {
  try {
    const value = JSON.parse(String(text)) as Partial<ChainLink & { chainId: string }> | null;
    if (typeof value?.entry !== "number" || typeof value.hash !== "string") return undefined;
    return { chainId: String(value.chainId ?? ""), entry: value.entry, hash: value.hash };
  } catch {
    // Somebody else has written it.
    return undefined;
  }
}

async function readHeadFile(file: string): Promise<(ChainLink & { chainId: string }) | undefined> {
  try {
    return linkIn(await readFile(file, "utf8"));
  } catch {
    // Not there before the first entry; gone when somebody has removed it, which the colony's copy makes up for.
    return undefined;
  }
}

function wholeNumber(value: number): number {
  return Number.isFinite(value) ? Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.round(value))) : 0;
}

function boundedDetails(details: string): string {
  const line = Buffer.from(details).toString();
  return line.length <= maxDetailsLength ? line : JSON.stringify({ cut: line.slice(0, maxDetailsLength / 2) });
}
