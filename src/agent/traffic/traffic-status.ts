import { ownPidNamespace } from "../../host/index.ts";
import type { AgentTrafficStatus } from "../../tools/index.ts";
import type { TrafficReadings } from "./traffic-collector.ts";

/** The traffic part of `coral agent status`: the state of the hooks, their costs and losses. */
export function trafficStatus({ isEnabled, status, totals }: TrafficReadings, namespace = ownPidNamespace()): AgentTrafficStatus {
  const state = status?.state ?? null;
  return {
    ...stateOf(isEnabled, status),
    scope: namespace === null || namespace.isFirst ? "host" : "pid-namespace",
    tls: state?.tls ?? [],
    step: state?.step ?? 0,
    cost: totals.now,
    losses: [...totals.losses].map(([loss, count]) => ({ loss, count })),
    pid: status?.pid ?? null,
    restarts: status?.restarts ?? 0,
    lastEnd: status?.lastEnd ?? null,
  };
}

/** The capability for a registration; reported as available while hooks are loading. */
export function trafficCapability({ isEnabled, status }: TrafficReadings): { name: string; available: boolean; reason: string } {
  const { state, reason, fix } = stateOf(isEnabled, status);
  if (state !== "off") return { name: "traffic", available: true, reason: "" };
  return { name: "traffic", available: false, reason: [reason, fix].filter((text) => text !== null).join("; ") };
}

function stateOf(isEnabled: boolean, status: TrafficReadings["status"]): Pick<AgentTrafficStatus, "state" | "hooks" | "reason" | "fix"> {
  if (!isEnabled) {
    const fix = "set traffic.enabled to true in agent.yaml; then reload the agent with SIGHUP";
    return { state: "off", hooks: "off", reason: "traffic.enabled is false in the agent's config", fix };
  }
  const state = status?.state ?? null;
  if (state === null) return { state: "starting", hooks: "off", reason: status?.lastEnd ?? null, fix: null };
  if (state.hooks !== "off") return { state: "on", hooks: state.hooks, reason: state.problem, fix: null };
  const fix = "run the agent as root or with CAP_BPF and CAP_PERFMON; coral doctor shows what is missing";
  return { state: "off", hooks: "off", reason: state.problem ?? "kernel hooks are off", fix };
}
