/**
 * Commands that agents hold until someone approves them. Agents hold and expire them; here they are listed and decided. Callers cannot approve their
 * own commands unless the config allows it.
 */

import { createClient } from "@connectrpc/connect";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import { redactCommand } from "../../redact/index.ts";
import { queryAudit } from "../../store/audit/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import type { ApprovalDecision, ApprovalInfo, ApprovalOutcome, ToolCallContext } from "../../tools/index.ts";
import { fromConnectError } from "../../transport/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import type { AuditRecorder } from "./audit-recorder.ts";

/** A command that an agent holds, as reported by its stream. */
export interface HeldCommand {
  agentId: string;
  commandId: string;
  approvalId: string;
  kind: string;
  caller: string;
  target: string;
  command: string;
  rule: string;
  expiresAtMs: number;
}

export interface PendingApprovalsOptions {
  store: ColonyStore;
  registry: Pick<AgentRegistry, "find">;
  audit: Pick<AuditRecorder, "note">;
  /** Whether callers may approve their own commands. */
  allowsOwn: () => boolean;
  clock: Clock;
  log: Logger;
}

interface Waiting extends HeldCommand {
  heldAtMs: number;
}

/** Held commands tracked in memory; those beyond it are still found in the pulled audit. */
const maxWaiting = 1_000;
/** Ended waits remembered until the pulled audit shows their end, too. */
const maxGone = 1_000;
/** The longest wait that an agent's config allows. */
const longestWaitMs = 86_400_000;
const shortestPrefix = 4;
const decideTimeoutMs = 10_000;

export class PendingApprovals {
  readonly #options: PendingApprovalsOptions;
  readonly #waiting = new Map<string, Waiting>();
  /** Waits that have ended, oldest first. The pulled audit may still show them as open until the next pull. */
  readonly #gone = new Set<string>();

  constructor(options: PendingApprovalsOptions) {
    this.#options = options;
  }

  /** An agent has reported that it holds this command. */
  held(command: HeldCommand): void {
    this.#forgetExpired();
    if (this.#waiting.size < maxWaiting) {
      const shown = redactCommand(command.command);
      this.#waiting.set(keyOf(command), { ...command, command: shown, heldAtMs: this.#options.clock.wallMs() });
    }
    this.#options.log.info(`A command by ${command.caller} needs approval (rule ${command.rule})`, {
      approvalId: command.approvalId,
      agentId: command.agentId,
    });
  }

  /** The wait has ended: decided, expired or cancelled. */
  gone(agentId: string, approvalId: string): void {
    const key = keyOf({ agentId, approvalId });
    this.#waiting.delete(key);
    this.#gone.add(key);
    for (const oldest of this.#gone) {
      if (this.#gone.size <= maxGone) break;
      this.#gone.delete(oldest);
    }
  }

  /** Oldest first. Commands that did not come through this colony are found in the audit of their agents. */
  async list(): Promise<ApprovalInfo[]> {
    this.#forgetExpired();
    const { registry, store, clock } = this.#options;
    const waiting = new Map<string, ApprovalInfo>();
    const sinceUs = (clock.wallMs() - longestWaitMs) * 1_000;
    for (const record of await queryAudit(store, { sinceUs, limit: maxWaiting, outcome: "open" })) {
      if (record.phase !== "held" || record.agentId === null) continue;
      const info = { ...record, agentId: record.agentId, approvalId: record.id, commandId: record.id };
      if (this.#gone.has(keyOf(info))) continue;
      waiting.set(keyOf(info), this.#infoOf(info, Date.parse(record.at), null));
    }
    for (const command of this.#waiting.values()) waiting.set(keyOf(command), this.#infoOf(command, command.heldAtMs, command.expiresAtMs));
    return [...waiting.values()]
      .filter(({ agentId }) => registry.find(agentId)?.session?.tunnel !== undefined)
      .sort((a, b) => a.heldAt.localeCompare(b.heldAt));
  }

  /** Decides by id or prefix. Several agents may hold the same command: the decision goes to all of them. */
  async decide(decision: ApprovalDecision, context: ToolCallContext): Promise<ApprovalOutcome[]> {
    const chosen = await this.#choose(decision);
    const by = context.caller ?? "";
    const own = chosen.find(({ caller }) => caller === by);
    if (decision.isApproved && own && !this.#options.allowsOwn()) {
      throw new CoralError({
        code: "not-permitted",
        message: `Cannot approve "${own.approvalId}": it is ${by}'s own command, and someone else must approve it; set approvals.allow_own in the colony's config to allow this`,
      });
    }
    return await Promise.all(chosen.map((approval) => this.#decideOne(approval, decision, by, context)));
  }

  async #choose({ approvalId, agentId }: ApprovalDecision): Promise<ApprovalInfo[]> {
    const all = (await this.list()).filter((approval) => agentId === undefined || approval.agentId === agentId);
    const matching = all.filter((approval) =>
      approvalId.length < shortestPrefix ? approval.approvalId === approvalId : approval.approvalId.startsWith(approvalId),
    );
    const ids = new Set(matching.map((approval) => approval.approvalId));
    if (ids.size === 0)
      throw new CoralError({
        code: "not-found",
        message: `Cannot decide "${approvalId}": no pending approval has this id, or it is already over; see coral approval list`,
      });
    if (ids.size > 1)
      throw new CoralError({
        code: "invalid",
        message: `Cannot decide "${approvalId}": ambiguous id, ${ids.size} approvals match; use a longer prefix`,
      });
    return matching;
  }

  async #decideOne(approval: ApprovalInfo, decision: ApprovalDecision, by: string, context: ToolCallContext): Promise<ApprovalOutcome> {
    const { audit, registry } = this.#options;
    const { agentId, hostname, approvalId, commandId, command, target, rule } = approval;
    const { isApproved, reason = "" } = decision;
    const about = {
      kind: "approval",
      command_id: commandId,
      caller: by,
      caller_from: context.from ?? "",
      through: context.through ?? "http",
      target: `agent ${agentId}, ${target}`,
      command,
      rule,
    };
    const details = { askedBy: approval.caller, reason };
    await audit.note({ ...about, phase: "decided", reason: isApproved ? "approved" : "denied", details });
    const tunnel = registry.find(agentId)?.session?.tunnel;
    let problem: string | null = null;
    try {
      if (!tunnel) throw new CoralError({ code: "unavailable", message: "the agent is no longer connected" });
      await createClient(AgentService, tunnel.transport).decideApproval(
        { approvalId, isApproved, decidedBy: by, reason },
        { signal: context.signal, timeoutMs: decideTimeoutMs },
      );
      this.gone(agentId, approvalId);
    } catch (error) {
      const failure = fromConnectError(error);
      problem = failure.code === "not-found" ? "it is no longer pending" : failure.message;
      if (failure.code === "not-found") this.gone(agentId, approvalId);
      await audit.note({ ...about, phase: "ended", reason: `the agent did not accept the decision: ${problem}`, details });
    }
    return { approvalId, agentId, hostname, isApproved, problem };
  }

  #infoOf(
    { agentId, approvalId, commandId, kind, caller, target, command, rule }: Omit<HeldCommand, "expiresAtMs">,
    heldAtMs: number,
    expiresAtMs: number | null,
  ): ApprovalInfo {
    const hostname = this.#options.registry.find(agentId)?.record.hostname ?? agentId;
    const expiresAt = expiresAtMs === null ? null : new Date(expiresAtMs).toISOString();
    const heldAt = new Date(heldAtMs).toISOString();
    return { approvalId, agentId, hostname, commandId, kind, caller, target, command, rule, heldAt, expiresAt };
  }

  #forgetExpired(): void {
    const nowMs = this.#options.clock.wallMs();
    for (const [key, { expiresAtMs, heldAtMs }] of this.#waiting) {
      // Only bounds the map: the agent ends the wait itself. The minute allows for its clock being off.
      if (nowMs > expiresAtMs + 60_000 && nowMs > heldAtMs + 60_000) this.#waiting.delete(key);
    }
  }
}

function keyOf({ agentId, approvalId }: { agentId: string; approvalId: string }): string {
  return `${agentId} ${approvalId}`;
}
