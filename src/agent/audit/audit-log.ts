/**
 * The agent's audit log: a hash chain in its store, pulled by the colony like any signal. Nothing else writes the signal `audit`.
 * Tampering shows in `verify` here, in the colony's copy, or in a comparison of the two.
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
import { type ColonyHead, ColonyHeads } from "./colony-heads.ts";

export interface AuditLogOptions {
  store: Pick<AgentStore, "epoch" | "append" | "query" | "heads">;
  /** Write-ahead journal: holds entries until they are committed. */
  journalFile: string;
  /** Owner of the files; absent: the user of this process. */
  owner?: FileOwner | undefined;
  /** Records the last entry outside the database, so that a truncated chain is found without the colony. */
  headFile: string;
  /** Keeps the last entries of the colony's chain that this agent has received. */
  colonyHeadsFile: string;
  /** Applied on top of the built-in rules. */
  redaction: () => RedactionRules;
  clock: Clock;
  log: Logger;
}

/** An audit entry for anything, such as a capture. Text fields are truncated and redacted on write. */
export type AuditNote = Partial<AuditEntry> & Pick<AuditEntry, "kind" | "phase">;

/** Commands closed as `lost` at one start. */
const maxLost = 999;
/** Characters of each text column; longer ones are truncated, so that no caller can fill the audit. */
const maxTextLength = 512;
/** Characters of the JSON in `details`; of a longer one, half as many are kept as text. */
const maxDetailsLength = 8_192;
/** At most one anchor of the colony's chain per interval: pulls come every few seconds. */
const anchorIntervalMs = 10 * 60_000;

/** Writers call `write` or `note`; entries are journalled first, then committed in order, each with the hash of the one before it. */
export class AuditLog implements CommandAudit, AsyncDisposable {
  readonly #options: AuditLogOptions;
  #chainId: string;
  #head: ChainLink;
  #writer: AuditWriter | undefined;
  #writingHead: Promise<void> | undefined;
  readonly #colonyHeads: ColonyHeads;
  #anchoredAtMs = Number.NEGATIVE_INFINITY;
  #anchored = "";

  private constructor(options: AuditLogOptions, head: ChainLink, colonyHeads: ColonyHeads) {
    this.#colonyHeads = colonyHeads;
    this.#options = options;
    this.#chainId = options.store.epoch;
    this.#head = head;
  }

  /** Finds the end of the chain, reports a truncated one, and closes commands that a killed agent left open as `lost`. */
  static async open(options: AuditLogOptions): Promise<AuditLog> {
    const { store, headFile, log } = options;
    const recorded = await readHeadFile(headFile);
    const last = await lastLink(store);
    const colonyHeads = await ColonyHeads.open(options.colonyHeadsFile, log);
    const opened = new AuditLog(options, headOf(store, last, recorded), colonyHeads);
    opened.#writer = await AuditWriter.open({
      file: options.journalFile,
      owner: options.owner,
      commit: (entries) => opened.#commit(entries),
      isCommitted: (entry) => isStored(store, entry),
      log,
    });
    try {
      await opened.#begin(recorded, last);
    } catch (error) {
      await opened.close();
      throw error;
    }
    return opened;
  }

  /** The last committed entry. */
  get head(): ChainLink & { chainId: string } {
    return { chainId: this.#chainId, ...this.#head };
  }

  /** Resolves when the entry is on disk; rejects when it cannot be stored. */
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

  /** Like `write`, for entries that are not commands. */
  async note(note: AuditNote): Promise<void> {
    await this.#writer?.write(this.#entryOf(note));
  }

  /**
   * Keeps the head of the colony's chain, which every pull contains: the colony cannot rewrite or remove entries up to it unnoticed. This chain records
   * a head every ten minutes, and the last valid one as soon as the colony's head does not follow it.
   */
  async anchor(head: ColonyHead): Promise<void> {
    const lost = this.#colonyHeads.receive(head);
    if (lost && lost.entry > 0) {
      const now = lost.chainId === head.chainId ? `ends at entry ${head.entry}` : `was replaced by chain ${head.chainId}`;
      this.#options.log.error(
        `audit of colony ${head.colonyId} lost entries: chain ${lost.chainId} had entry ${lost.entry} and now ${now}; run coral audit verify`,
      );
      await this.#noteAnchor(lost);
    }
    const text = `${head.chainId} ${head.entry} ${head.hash}`;
    const nowMs = this.#options.clock.monotonicMs();
    if (head.entry === 0 || text === this.#anchored || nowMs - this.#anchoredAtMs < anchorIntervalMs) return;
    this.#anchoredAtMs = nowMs;
    this.#anchored = text;
    await this.#noteAnchor(head);
  }

  #noteAnchor({ colonyId, chainId, entry, hash }: ColonyHead): Promise<void> {
    const details = JSON.stringify({ chainId, entry, hash, ...(colonyId === "" ? {} : { colonyId }) });
    return this.note({ kind: "anchor", phase: "noted", target: "colony", details });
  }

  /** Called by the store's retention. The entry that states how far rows were pruned is on disk before any row is deleted. */
  async beforePrune({ firstSeq, lastSeq }: SeqRange): Promise<void> {
    const [row] = await this.#options.store.query(`SELECT entry, hash FROM "${audit.name}" WHERE seq = ?`, [lastSeq]);
    // No entry for a row that is already missing; `verify` reports it.
    if (!row) return;
    const details = JSON.stringify({ first: firstSeq, entry: Number(row["entry"]), hash: String(row["hash"]) });
    await this.note({ kind: "pruned", phase: "noted", target: "chain", details });
    await this.settled();
  }

  /** Checks every entry of the chain. */
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
      check.report("added", this.#head.entry + 1, `entries were added after entry ${this.#head.entry}, the last one written`);
    const recorded = await readHeadFile(headFile);
    return check.finish(pruned, recorded?.chainId === this.#chainId ? laterOf(recorded, before) : before);
  }

  /** The hashes of the given entries, as stored now. */
  async linksOf(entries: readonly number[]): Promise<ChainLink[]> {
    const numbers = entries.filter((entry) => Number.isSafeInteger(entry) && entry > 0).slice(0, 1_000);
    if (numbers.length === 0) return [];
    await this.settled();
    const rows = await this.#options.store.query(
      `SELECT entry, hash FROM "${audit.name}" WHERE entry IN (${numbers.join(", ")}) ORDER BY entry`,
    );
    return rows.map((row) => ({ entry: Number(row["entry"]), hash: String(row["hash"]) }));
  }

  /** Heads of colonies' chains that this agent has received, newest first, without duplicates. */
  async anchors(limit: number): Promise<ColonyHead[]> {
    await this.settled();
    const rows = await this.#options.store.query(
      `SELECT details FROM "${audit.name}" WHERE kind = 'anchor' ORDER BY seq DESC LIMIT ${Math.floor(limit)}`,
    );
    const recorded = rows.flatMap((row) => {
      const link = linkIn(row["details"]);
      return link ? [{ ...link, colonyId: colonyIn(row["details"]) }] : [];
    });
    const heads = new Map<string, ColonyHead>();
    for (const head of [...this.#colonyHeads.list(), ...recorded]) {
      const key = `${head.chainId} ${head.entry} ${head.hash}`;
      if (head.entry > 0 && !heads.has(key)) heads.set(key, head);
    }
    return [...heads.values()].slice(0, limit);
  }

  /** Resolves when everything written so far can be queried. */
  async settled(): Promise<void> {
    await this.#writer?.settled();
    await this.#writingHead;
    await this.#colonyHeads.settled();
  }

  async close(): Promise<void> {
    await this.#writer?.close();
    await this.#writingHead;
    await this.#colonyHeads.settled();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #entryOf(note: AuditNote): AuditEntry {
    const { clock, redaction } = this.#options;
    const entry = { ...blankAuditEntry(Math.round(clock.wallMs() * 1_000), Math.round(clock.monotonicMs())), ...note };
    for (const [name, value] of Object.entries(entry)) {
      if (typeof value === "string" && name !== "details") Object.assign(entry, { [name]: bounded(value, maxTextLength) });
    }
    for (const name of ["stdout_bytes", "stderr_bytes", "duration_ms"] as const) entry[name] = wholeNumber(entry[name]);
    entry.exit_code = entry.exit_code === null ? null : Math.trunc(entry.exit_code);
    // The caller has redacted it already. Entries cannot be removed later, so a mistake there must not reach the audit.
    entry.command = redactCommand(note.command ?? "", redaction());
    entry.details = boundedDetails(entry.details);
    return entry;
  }

  async #commit(group: readonly AuditEntry[]): Promise<void> {
    const { store, clock } = this.#options;
    const entries = [...group];
    if (store.epoch !== this.#chainId) {
      // The store was replaced: a new chain starts, and its first entry names the head of the old one.
      const before = this.head;
      this.#chainId = store.epoch;
      this.#head = chainStart(store.epoch);
      const blank = blankAuditEntry(Math.round(clock.wallMs() * 1_000), Math.round(clock.monotonicMs()));
      entries.unshift({ ...blank, ...chainRestarted(before) });
    }
    const rows: AuditRow[] = [];
    let link = this.#head;
    for (const entry of entries) {
      const row = linkAuditEntry(link, entry);
      rows.push(row);
      link = row;
    }
    await store.append(audit, rows);
    this.#head = { entry: link.entry, hash: link.hash };
    this.#writingHead ??= this.#writeHeadFile();
  }

  /** Runs behind the commits, one write at a time. A head file that lags detects less, but never reports a false problem. Never rejects. */
  async #writeHeadFile(): Promise<void> {
    const { headFile, log } = this.#options;
    for (let written = ""; ; ) {
      const text = `${JSON.stringify(this.head)}\n`;
      if (text === written) break;
      // Not fatal: the colony's copy has the head, too.
      await writePrivateFile(headFile, text).catch((error: unknown) =>
        log.warn(`cannot write the head of the audit chain to "${headFile}"; retrying with the next entry`, { error }),
      );
      written = text;
    }
    this.#writingHead = undefined;
  }

  async #begin(recorded: (ChainLink & { chainId: string }) | undefined, last: ChainLink): Promise<void> {
    const { store, log } = this.#options;
    if (recorded && recorded.chainId !== store.epoch) await this.note(chainRestarted(recorded));
    const problem = await this.#truncation(recorded, last);
    if (problem !== undefined) {
      log.error(`audit chain broken: ${problem}; recording this in the chain`);
      await this.note({
        kind: "chain",
        phase: "noted",
        target: "chain",
        reason: "broken",
        details: JSON.stringify({ problem, remembered: recorded }),
      });
    }
    await this.#closeLost();
    await this.settled();
  }

  async #truncation(recorded: (ChainLink & { chainId: string }) | undefined, last: ChainLink): Promise<string | undefined> {
    if (!recorded || recorded.chainId !== this.#chainId) return undefined;
    if (recorded.entry > last.entry) return `it ends at entry ${last.entry}, but entry ${recorded.entry} was written`;
    const [link] = await this.linksOf([recorded.entry]);
    if (link && link.hash !== recorded.hash) return `entry ${recorded.entry} differs from the one that was written`;
    return undefined;
  }

  async #closeLost(): Promise<void> {
    const open = await this.#options.store.query(
      `SELECT kind, command_id, caller, caller_from, through, question_id, target, place, command, rule, run_as, recording, max("time") AS "time"
       FROM "${audit.name}" WHERE phase IN ('begun', 'held') AND command_id NOT IN (
         SELECT command_id FROM "${audit.name}" WHERE phase IN ('ended', 'denied'))
       GROUP BY ALL ORDER BY "time" LIMIT ${maxLost}`,
    );
    // On a full disk, ends that the former process saw may still be in the journal only.
    const seen = new Set(
      this.#writer?.waiting.filter(({ phase }) => phase === "ended" || phase === "denied").map((entry) => entry.command_id),
    );
    const lost: AuditEntry[] = [];
    for (const row of open.reverse()) {
      const id = String(row["command_id"]);
      if (seen.has(id)) continue;
      seen.add(id);
      lost.push(this.#entryOf({ ...lostOf(row), phase: "ended", reason: "lost" }));
    }
    await this.#writer?.derived(lost);
  }
}

/** The note for a command whose end was never recorded: it repeats the fields of its beginning. */
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

/** Sequences are never reused, even after rows were deleted: the chain continues behind the gap, so the gap shows. */
function headOf(store: AuditLogOptions["store"], last: ChainLink, recorded: (ChainLink & { chainId: string }) | undefined): ChainLink {
  const entry = (store.heads().get(audit.name)?.nextSeq ?? 1) - 1;
  if (last.entry === entry) return last;
  return { entry, hash: recorded?.chainId === store.epoch && recorded.entry === entry ? recorded.hash : last.hash };
}

function laterOf(a: ChainLink, b: ChainLink): ChainLink {
  return a.entry > b.entry ? a : b;
}

function chainRestarted(before: ChainLink & { chainId: string }) {
  return { kind: "chain", phase: "noted", target: "chain", reason: "begun-anew", details: JSON.stringify({ before }) };
}

/** A break found at an earlier start. Entries after it link to each other again, so only this entry shows the break. */
export function brokenNote(row: Row): string | undefined {
  if (row["kind"] !== "chain" || row["reason"] !== "broken") return undefined;
  try {
    const { problem } = JSON.parse(String(row["details"])) as { problem?: unknown };
    return `found when the agent started: ${String(problem)}`;
  } catch {
    return "found when the agent started: the chain is broken";
  }
}

/** The last pruned entry, as stated by an entry of kind `pruned`. */
function prunedLink(row: Row): ChainLink | undefined {
  return row["kind"] === "pruned" && row["target"] === "chain" ? linkIn(row["details"]) : undefined;
}

function linkIn(text: unknown): (ChainLink & { chainId: string }) | undefined {
  try {
    const value = JSON.parse(String(text)) as Partial<ChainLink & { chainId: string }> | null;
    if (typeof value?.entry !== "number" || typeof value.hash !== "string") return undefined;
    return { chainId: String(value.chainId ?? ""), entry: value.entry, hash: value.hash };
  } catch {
    // Not written by this program.
    return undefined;
  }
}

function colonyIn(details: unknown): string {
  const { colonyId } = JSON.parse(String(details)) as { colonyId?: unknown };
  return typeof colonyId === "string" ? colonyId : "";
}

async function readHeadFile(file: string): Promise<(ChainLink & { chainId: string }) | undefined> {
  try {
    return linkIn(await readFile(file, "utf8"));
  } catch {
    // Absent before the first entry; if it was deleted, the colony's copy still shows the truncation.
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
