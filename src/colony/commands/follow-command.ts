/** One agent's part of a command: a call through its tunnel, up to an end whatever happens to it. */

import { createClient } from "@connectrpc/connect";
import { sleep } from "../../base/clock.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { CommandOrder } from "../../proto/coral/agent/v1/commands_pb.ts";
import { brokenEnd, type CommandEnd, type FrameStream, fromConnectError, relayResponses, type TargetInput } from "../../transport/index.ts";
import type { PendingApprovals } from "../audit/pending-approvals.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import { watchApprovals } from "./watch-approvals.ts";

/** The end of a stream is heard a moment before that of its connection. */
const lossGraceMs = 200;

export interface FollowOptions {
  registry: Pick<AgentRegistry, "find">;
  /** Learns of it when the agent holds the command back. */
  approvals?: Pick<PendingApprovals, "held" | "gone">;
  agentId: string;
  order: CommandOrder;
  input: TargetInput;
  /** Gets its output and what it says before its end. */
  sink: Pick<FrameStream, "send">;
  /** Place of the agent in the list of targets. */
  index: number;
  /** Ends the command, too. */
  signal: AbortSignal;
}

/** Never throws: a failure is a way to end. */
export async function followCommand(options: FollowOptions): Promise<CommandEnd> {
  const { registry, agentId, order, input, index, signal } = options;
  using watched = watchApprovals(options);
  const { sink } = watched;
  // Looked up at the last moment: an agent that has come back since has another tunnel.
  const entry = registry.find(agentId);
  const tunnel = entry?.session?.tunnel;
  if (!entry || !tunnel || entry.record.revokedAt) return brokenEnd("failed", "unavailable", "the agent is not connected any more");
  const startedMs = performance.now();
  const broken = (reason: CommandEnd["reason"], code: string, problem: string): CommandEnd => ({
    ...brokenEnd(reason, code, problem),
    durationMs: Math.round(performance.now() - startedMs),
  });
  try {
    const responses = createClient(AgentService, tunnel.transport).execute(input.messages(order), { signal });
    const end = await relayResponses(responses, sink, index);
    return (
      end ?? broken(signal.aborted ? "cancelled" : "failed", signal.aborted ? "cancelled" : "internal", "the agent stopped without a word")
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
