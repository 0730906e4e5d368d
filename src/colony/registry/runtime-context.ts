/** The runtime context of one agent: queried through its tunnel, or as last registered. */

import { createClient } from "@connectrpc/connect";
import { CoralError } from "../../base/errors.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import { type ColonyStore, listRuntimeHistory } from "../../store/colony/index.ts";
import type { ColonyBackend, RuntimeContextFacts } from "../../tools/index.ts";
import { fromConnectError, runtimeFromWire, type Tunnel } from "../../transport/index.ts";
import type { AgentRegistry } from "./agent-registry.ts";
import { checkRuntime } from "./check-runtime.ts";
import type { RuntimeRegistry } from "./runtime-registry.ts";

const readTimeoutMs = 3_000;
/** A refresh queries the container runtime and the cluster. */
const refreshTimeoutMs = 15_000;

export interface RuntimeContextOptions {
  store: ColonyStore;
  registry: Pick<AgentRegistry, "find">;
  runtimes: Pick<RuntimeRegistry, "of">;
}

export function createRuntimeContext({ store, registry, runtimes }: RuntimeContextOptions): ColonyBackend["runtimeContext"] {
  return async ({ agentId, refresh, history }, context) => {
    const entry = registry.find(agentId);
    if (!entry) throw new CoralError({ code: "not-found", message: `Cannot show the runtime of agent "${agentId}": no such agent` });
    const changes = history === 0 ? [] : await listRuntimeHistory(store, agentId, history);
    const past = {
      history: changes.map(({ changedAt, criType, criVersion, runtimeType, sidecarMode, reason, changes: description }) => ({
        at: new Date(changedAt / 1_000).toISOString(),
        runtimeType,
        sidecarMode,
        containerRuntime: [criType, criVersion].filter((part) => part !== "").join(" "),
        reason,
        changes: description,
      })),
    };
    const known = runtimes.of(agentId);
    const fallback = (note: string): RuntimeContextFacts => ({
      runtime: known?.facts ?? null,
      problems: known?.problems ?? [],
      source: "registry",
      note,
      ...past,
    });
    const tunnel = entry.session?.tunnel;
    if (!tunnel) return fallback("the agent is not connected");
    try {
      return { ...(await readRuntime(tunnel, refresh, context.signal)), source: "agent", note: "", ...past };
    } catch (error) {
      context.signal.throwIfAborted();
      const { code, message } = fromConnectError(error);
      return fallback(code === "unsupported" ? "the agent's version is too old for this query" : `the agent did not respond: ${message}`);
    }
  };
}

async function readRuntime(
  tunnel: Tunnel,
  refresh: boolean,
  signal: AbortSignal,
): Promise<Pick<RuntimeContextFacts, "runtime" | "problems">> {
  const timeoutMs = refresh ? refreshTimeoutMs : readTimeoutMs;
  const { context } = await createClient(AgentService, tunnel.transport).getRuntimeContext({ refresh }, { timeoutMs, signal });
  if (!context) return { runtime: null, problems: [] };
  const { facts, problems } = checkRuntime(runtimeFromWire(context));
  return { runtime: facts, problems };
}
