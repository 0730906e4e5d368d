/** One agent's part of a command: a call through its tunnel that always results in an end. */

import { createClient } from "@connectrpc/connect";
import { sleep } from "../../base/clock.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { CommandEnded, CommandOrder } from "../../proto/coral/agent/v1/commands_pb.ts";
import { brokenEnd, fromConnectError, relayResponses, type SendResponse, type TargetInput } from "../../transport/index.ts";
import type { PendingApprovals } from "../audit/pending-approvals.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import { watchApprovals } from "./watch-approvals.ts";

/** A stream ends a moment before its connection does. */
const lossGraceMs = 200;

export interface FollowOptions {
  registry: Pick<AgentRegistry, "find">;
  /** Records commands that wait for approval at the agent. */
  approvals?: Pick<PendingApprovals, "held" | "gone">;
  agentId: string;
  order: CommandOrder;
  input: TargetInput;
  /** Gets the agent's events up to its end. */
  send: SendResponse;
  /** Of the agent in the list of targets. */
  index: number;
  /** Aborting it ends the command. */
  signal: AbortSignal;
}

/** Never throws: a failure is an end. */
export async function followCommand(options: FollowOptions): Promise<CommandEnded> {
  const { registry, agentId, order, input, index, signal } = options;
  using watched = watchApprovals(options);
  // Looked up at the last moment: an agent that has reconnected has another tunnel.
  const entry = registry.find(agentId);
  const tunnel = entry?.session?.tunnel;
  if (!entry || !tunnel || entry.record.revokedAt) return brokenEnd("failed", "unavailable", "the agent is no longer connected");
  const startedMs = performance.now();
  const broken = (...[reason, code, problem]: Parameters<typeof brokenEnd>): CommandEnded => ({
    ...brokenEnd(reason, code, problem),
    durationMs: BigInt(Math.round(performance.now() - startedMs)),
  });
  try {
    const responses = createClient(AgentService, tunnel.transport).execute(input.messages(order), { signal });
    const end = await relayResponses(responses, watched.send, index);
    return (
      end ??
      broken(
        signal.aborted ? "cancelled" : "failed",
        signal.aborted ? "cancelled" : "internal",
        "the agent stopped without reporting an end",
      )
    );
  } catch (error) {
    if (signal.aborted) return broken("cancelled", "cancelled", "");
    const problem = fromConnectError(error);
    const lost = await Promise.race([tunnel.closed, sleep(lossGraceMs, signal).catch(() => undefined)]);
    if (lost) return broken("lost", "unavailable", `the connection to the agent was lost: ${lost.reason}`);
    const isOld = problem.code === "unsupported";
    return broken("failed", problem.code, isOld ? "the agent does not know this command; update it" : problem.message);
  }
}
