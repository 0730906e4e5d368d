/** Queries agents' own stores through their tunnels. */

import { createClient } from "@connectrpc/connect";
import { CoralError } from "../../base/errors.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import { fromConnectError } from "../../transport/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";

export type AgentQueryKind = "traces" | "trace" | "logs" | "log_patterns" | "metric" | "metric_names";

export interface OwnAnswer<T> {
  agentId: string;
  answer: T;
  /** Time of its oldest row of that kind, milliseconds since 1970; null without rows. */
  oldestMs: number | null;
}

const oneTimeoutMs = 10_000;
/** For all agents together; later answers are ignored. */
const allTimeoutMs = 3_000;
const atOnce = 16;
/** Agents beyond this are not queried and count as silent. */
const maxAgents = 256;

export class AgentQueries {
  readonly #registry: Pick<AgentRegistry, "find" | "entries">;

  constructor(registry: Pick<AgentRegistry, "find" | "entries">) {
    this.#registry = registry;
  }

  /** Throws `unavailable` when the agent is not connected. */
  async one<T>(agentId: string, kind: AgentQueryKind, request: object, signal: AbortSignal): Promise<OwnAnswer<T>> {
    return await this.#ask<T>(agentId, kind, request, AbortSignal.any([signal, AbortSignal.timeout(oneTimeoutMs)]));
  }

  /** Queries every connected agent; `silent` are those without an answer in time. */
  async all<T>(kind: AgentQueryKind, request: object, signal: AbortSignal): Promise<{ answers: OwnAnswer<T>[]; silent: string[] }> {
    const connected = [...this.#registry.entries()].filter((entry) => entry.session?.tunnel).map((entry) => entry.record.agentId);
    const slots = new Semaphore(atOnce);
    const until = AbortSignal.any([signal, AbortSignal.timeout(allTimeoutMs)]);
    const outcomes = await Promise.allSettled(
      connected.slice(0, maxAgents).map((agentId) => slots.run(() => this.#ask<T>(agentId, kind, request, until))),
    );
    signal.throwIfAborted();
    return {
      answers: outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : [])),
      silent: connected.filter((_, index) => outcomes[index]?.status !== "fulfilled"),
    };
  }

  async #ask<T>(agentId: string, kind: AgentQueryKind, request: object, signal: AbortSignal): Promise<OwnAnswer<T>> {
    const tunnel = this.#registry.find(agentId)?.session?.tunnel;
    if (tunnel === undefined) {
      throw new CoralError({ code: "unavailable", message: `Cannot query agent "${agentId}": it is not connected` });
    }
    try {
      const { answer, oldestUs } = await createClient(AgentService, tunnel.transport).query(
        { kind, request: JSON.stringify(request) },
        { signal },
      );
      return { agentId, answer: JSON.parse(answer) as T, oldestMs: oldestUs === undefined ? null : Number(oldestUs) / 1_000 };
    } catch (error) {
      const problem = fromConnectError(error);
      throw new CoralError({ code: problem.code, message: `Cannot query agent "${agentId}": ${problem.message}`, cause: error });
    }
  }
}
