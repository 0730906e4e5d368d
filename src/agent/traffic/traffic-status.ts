import type { AgentTrafficStatus } from "../../tools/index.ts";
import type { TrafficReadings } from "./traffic-collector.ts";

/** What `coral agent status` says of the hooks: whether they work, what they cost, and what they missed. */
export function trafficStatus({ isEnabled, status, figures }: TrafficReadings): AgentTrafficStatus {
  const state = status?.state ?? null;
  return {
    ...stateOf(isEnabled, status),
    tls: state?.tls ?? [],
    step: state?.step ?? 0,
    cost: figures.now,
    losses: [...figures.losses].map(([loss, count]) => ({ loss, count })),
    pid: status?.pid ?? null,
    restarts: status?.restarts ?? 0,
    lastEnd: status?.lastEnd ?? null,
  };
}

/** What the colony is told at registration: whether this agent sees requests, and why not. While hooks are being loaded they are taken to work. */
export function trafficCapability({ isEnabled, status }: TrafficReadings): { name: string; available: boolean; reason: string } {
  const { state, reason, fix } = stateOf(isEnabled, status);
  if (state !== "off") return { name: "traffic", available: true, reason: "" };
  return { name: "traffic", available: false, reason: [reason, fix].filter((text) => text !== null).join("; ") };
}

function stateOf(isEnabled: boolean, status: TrafficReadings["status"]): Pick<AgentTrafficStatus, "state" | "hooks" | "reason" | "fix"> {
  if (!isEnabled) {
    const fix = "set traffic.enabled to true in agent.yaml; a running agent reads it again on SIGHUP";
    return { state: "off", hooks: "off", reason: "traffic.enabled is false in the agent's config", fix };
  }
  const state = status?.state ?? null;
  if (state === null) return { state: "starting", hooks: "off", reason: status?.lastEnd ?? null, fix: null };
  if (state.hooks !== "off") return { state: "on", hooks: state.hooks, reason: state.problem, fix: null };
  const fix = "run the agent as root or with CAP_BPF and CAP_PERFMON; coral doctor tells what is missing";
  return { state: "off", hooks: "off", reason: state.problem ?? "the kernel's hooks are off", fix };
}
