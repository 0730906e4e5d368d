/** Commands that the colony routes to agents, and their audit entries. */

import type { FlowLoad } from "../../base/flow-load.ts";
import type { Logger } from "../../base/log.ts";
import type { CommandEnded } from "../../proto/coral/agent/v1/commands_pb.ts";
import type { CommandKind } from "../../tools/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import type { PendingApprovals } from "./pending-approvals.ts";

/** The caller of a command, as the audit records it. */
export interface CommandCaller {
  name: string;
  from: string;
  through: "cli" | "mcp" | "http" | "llm";
  questionId: string;
}

/** A command for one or more agents, as the audit records it. */
export interface RoutedCommand {
  commandId: string;
  kind: CommandKind;
  caller: CommandCaller;
  /** As requested: `service=api env=prod`. */
  target: string;
  /** The command line as given; not redacted. */
  command: string;
  /** The agents that run it. */
  agentIds: string[];
}

/** The colony's own audit of commands; agents keep another. */
export interface CommandRouteAudit {
  /** Called before anything is sent to an agent; if it throws, nothing is sent. */
  requested(command: RoutedCommand): Promise<void>;
  /** No agent is able to run it, or none is connected. */
  refused(command: RoutedCommand, reason: string): Promise<void>;
  /** One end for each of `agentIds`. */
  ended(command: RoutedCommand, ends: readonly CommandEnded[], durationMs: number): Promise<void>;
}

export interface CommandsOptions {
  registry: Pick<AgentRegistry, "find">;
  /** Absent: only agents audit commands. */
  audit?: CommandRouteAudit | undefined;
  /** Absent: held commands cannot be approved here and expire at the agent. */
  approvals?: Pick<PendingApprovals, "held" | "gone">;
  /** The id by which agents know a service; absent: its name. The audit keeps the name. */
  serviceId?: (service: string) => Promise<string>;
  /** Counts the output of agents; absent: not counted. */
  load?: FlowLoad;
  log: Logger;
}

/** Runs a command with an audit entry before and after it, also when the client disconnects meanwhile. */
export async function auditedRun(
  { audit, log }: Pick<CommandsOptions, "audit" | "log">,
  routed: RoutedCommand,
  run: () => Promise<CommandEnded[]>,
): Promise<CommandEnded[]> {
  const { commandId, kind, caller, target, agentIds } = routed;
  await audit?.requested(routed);
  log.info(`${kind} on ${target} started by ${caller.name}`, { commandId, agents: agentIds.length });
  const startedMs = performance.now();
  let ends: CommandEnded[] = [];
  try {
    ends = await run();
    return ends;
  } finally {
    const durationMs = Math.round(performance.now() - startedMs);
    log.info(`${kind} on ${target} by ${caller.name} ended`, { commandId, agents: agentIds.length, durationMs });
    await audit?.ended(routed, ends, durationMs);
  }
}
