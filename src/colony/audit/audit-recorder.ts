/**
 * Records the colony's own audit: commands before they are sent to agents, SQL, captures, approvals, tokens. Agents keep an audit of what they did;
 * both use the same ids.
 */

import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { AuditRecord } from "../../model/audit.ts";
import type { CommandEnded } from "../../proto/coral/agent/v1/commands_pb.ts";
import { bounded, redactCommand, redactText } from "../../redact/index.ts";
import { AuditWriter, type ColonyAudit, isOwnEntry, openCommands } from "../../store/audit/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { type AuditEntry, blankAuditEntry, type ChainLink } from "../../store/signals/index.ts";
import type { CommandRouteAudit, RoutedCommand } from "./routed-command.ts";

export interface AuditRecorderOptions {
  chain: ColonyAudit;
  /** Holds entries until they are committed. */
  journalFile: string;
  /** Owner of the journal file; absent: the user of this process. */
  owner?: { uid: number; gid: number } | undefined;
  clock: Clock;
  log: Logger;
}

/** Absent fields are empty. The recorder bounds all texts and redacts `command`. */
export type AuditNote = Partial<Omit<AuditEntry, "details">> &
  Pick<AuditEntry, "kind" | "phase"> & { details?: Readonly<Record<string, unknown>>; isSql?: boolean };

const maxTextLength = 512;
const maxCommandLength = 4_096;
const maxRedactedLength = 16_384;
const maxDetailsLength = 8_192;
const maxListed = 100;
const maxLost = 1_000;

export class AuditRecorder implements CommandRouteAudit, AsyncDisposable {
  readonly #options: AuditRecorderOptions;

  readonly #writer: AuditWriter;

  private constructor(options: AuditRecorderOptions, writer: AuditWriter) {
    this.#options = options;
    this.#writer = writer;
  }

  /** Ends commands that a killed colony left open as `lost`. */
  static async open(options: AuditRecorderOptions, store: ColonyStore): Promise<AuditRecorder> {
    const { chain, journalFile: file, owner, log } = options;
    const isCommitted = (entry: AuditEntry): Promise<boolean> => isOwnEntry(store, entry);
    const recorder = new AuditRecorder(
      options,
      await AuditWriter.open({ file, owner, commit: (entries) => chain.append(entries), isCommitted, log }),
    );
    try {
      // After a full disk, ends that the previous process recorded may exist only in the journal.
      const ended = new Set(recorder.#writer.waiting.filter(({ phase }) => phase !== "asked").map((entry) => entry.command_id));
      const open = (await openCommands(store, maxLost)).filter(({ id }) => !ended.has(id));
      await recorder.#writer.derived(open.map((record) => recorder.#entryOf({ ...sameCommand(record), phase: "ended", reason: "lost" })));
    } catch (error) {
      await recorder.close();
      throw error;
    }
    return recorder;
  }

  /** The last link of the chain; agents keep it. */
  get head(): ChainLink & { chainId: string } {
    return { chainId: this.#options.chain.chainId, ...this.#options.chain.head };
  }

  /** Resolves when the entry is durable. Throws when it cannot be written: the recorded action must not happen then. */
  async note(note: AuditNote): Promise<void> {
    try {
      await this.#writer.write(this.#entryOf(note));
    } catch (error) {
      const { code, message } = CoralError.from(error);
      throw new CoralError({ code, message: `Cannot write the audit, so the action was not performed: ${message}`, cause: error });
    }
  }

  /** Resolves when all entries written so far can be queried. */
  settled(): Promise<void> {
    return this.#writer.settled();
  }

  close(): Promise<void> {
    return this.#writer.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  requested(command: RoutedCommand): Promise<void> {
    const { agentIds } = command;
    return this.note({ ...routed(command), phase: "asked", details: { agents: agentIds.length, agentIds: agentIds.slice(0, maxListed) } });
  }

  refused(command: RoutedCommand, reason: string): Promise<void> {
    return this.note({ ...routed(command), phase: "denied", reason });
  }

  async ended(command: RoutedCommand, ends: readonly CommandEnded[], durationMs: number): Promise<void> {
    const reasons = [...new Set(ends.map(({ reason }) => reason))];
    const [only] = ends.length === 1 ? ends : [];
    const sum = (value: (end: CommandEnded) => number): number => ends.reduce((total, end) => total + value(end), 0);
    await this.note({
      ...routed(command),
      phase: "ended",
      reason: reasons.join(", ") || "cancelled",
      exit_code: only?.reason === "exited" ? only.exitCode : null,
      stdout_bytes: sum(({ stdoutBytes }) => Number(stdoutBytes)),
      stderr_bytes: sum(({ stderrBytes }) => Number(stderrBytes)),
      duration_ms: durationMs,
      rule: only?.rule ?? "",
      recording: only?.recording ?? "",
      details: { ends: command.agentIds.slice(0, maxListed).map((agentId, index) => ({ agentId, ...endOf(ends[index]) })) },
    }).catch((error: unknown) =>
      // The command has run, and the agents' own audits have its end.
      this.#options.log.error(`Cannot record the end of ${command.kind} ${command.commandId} in the audit`, { error }),
    );
  }

  #entryOf({ details, isSql, ...note }: AuditNote): AuditEntry {
    const { clock } = this.#options;
    const entry = { ...blankAuditEntry(Math.round(clock.wallMs() * 1_000), Math.round(clock.monotonicMs())), ...note };
    for (const [name, value] of Object.entries(entry)) {
      if (typeof value === "string") Object.assign(entry, { [name]: bounded(value, maxTextLength) });
    }
    for (const name of ["stdout_bytes", "stderr_bytes", "duration_ms"] as const) entry[name] = Math.max(0, Math.round(entry[name]) || 0);
    const command = note.command ?? "";
    entry.command = isSql ? bounded(redactText(command.slice(0, maxRedactedLength)), maxCommandLength) : redactCommand(command);
    const text = JSON.stringify(details ?? {});
    entry.details = text.length <= maxDetailsLength ? text : JSON.stringify({ cut: text.slice(0, maxDetailsLength / 2) });
    return entry;
  }
}

function routed({ commandId, kind, caller, target, command }: RoutedCommand): Omit<AuditNote, "phase"> {
  const { name, from, through, questionId } = caller;
  return { kind, command_id: commandId, caller: name, caller_from: from, through, question_id: questionId, target, command };
}

function endOf(end: CommandEnded | undefined) {
  return { reason: end?.reason ?? "cancelled", ...(end?.reason === "exited" ? { exitCode: end.exitCode } : {}) };
}

function sameCommand(record: AuditRecord): Omit<AuditNote, "phase"> {
  const { id, kind, caller, callerFrom, through, questionId, target, command } = record;
  return {
    kind,
    command_id: id,
    caller,
    caller_from: callerFrom,
    through,
    question_id: questionId,
    target,
    command,
    isSql: kind === "sql",
  };
}
