/** A command on its way through the colony, and what is written down about it. */

import type { FlowLoad } from "../../base/flow-load.ts";
import type { Logger } from "../../base/log.ts";
import type { CommandKind } from "../../tools/index.ts";
import type { CommandEnd } from "../../transport/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import type { PendingApprovals } from "./pending-approvals.ts";

/** Who asks, in the words of the audit. */
export interface CommandAsker {
  name: string;
  from: string;
  through: "cli" | "mcp" | "http" | "llm";
  questionId: string;
}

/** A command on its way to agents, as the colony writes it down. */
export interface RoutedCommand {
  commandId: string;
  kind: CommandKind;
  caller: CommandAsker;
  /** As it was asked for: `service=api env=prod`. */
  target: string;
  /** Words as they were given; not redacted. */
  command: string;
  /** Who gets it. */
  agentIds: string[];
}

/** What the colony itself writes down about commands; agents keep their own. */
export interface CommandRouteAudit {
  /** Before anything is sent; nothing is when it throws. */
  asked(command: RoutedCommand): Promise<void>;
  /** Nobody can, or nobody is there. */
  refused(command: RoutedCommand, reason: string): Promise<void>;
  /** One end for each of `agentIds`. */
  ended(command: RoutedCommand, ends: readonly CommandEnd[], durationMs: number): Promise<void>;
}

export interface CommandsOptions {
  registry: Pick<AgentRegistry, "find">;
  /** Absent: only agents write it down. */
  audit?: CommandRouteAudit | undefined;
  /** Absent: whoever asked waits in vain for an approval, until the agent ends it. */
  approvals?: Pick<PendingApprovals, "held" | "gone">;
  /** Told of what agents write; absent: nobody wants to know. */
  load?: FlowLoad;
  log: Logger;
}

/** Written down before and after, also when the client has left in between. */
export async function auditedRun(
  { audit, log }: Pick<CommandsOptions, "audit" | "log">,
  routed: RoutedCommand,
  run: () => Promise<CommandEnd[]>,
): Promise<CommandEnd[]> {
  const { commandId, kind, caller, target, agentIds } = routed;
  await audit?.asked(routed);
  log.info(`${caller.name} begins ${kind} at ${target}`, { commandId, agents: agentIds.length });
  const startedMs = performance.now();
  let ends: CommandEnd[] = [];
  try {
    ends = await run();
    return ends;
  } finally {
    const durationMs = Math.round(performance.now() - startedMs);
    log.info(`${kind} of ${caller.name} at ${target} has ended`, { commandId, agents: agentIds.length, durationMs });
    await audit?.ended(routed, ends, durationMs);
  }
}
