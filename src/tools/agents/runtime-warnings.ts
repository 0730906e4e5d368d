/** Warnings about where agents run: passive sidecars, legacy agents, impossible capabilities. */

import { passiveFix } from "../../model/runtime-facts.ts";
import type { ColonyFacts } from "../contract/backend.ts";
import { activeAgents } from "../contract/match-agents.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { StatusWarning } from "../schemas/status.ts";

export function runtimeWarnings({ registration }: Pick<ColonyFacts, "registration">, agents: AgentInfo[]): StatusWarning[] {
  const active = activeAgents(agents);
  const passive = registration?.warnPassiveSidecars === false ? [] : active.filter(({ runtime }) => runtime?.sidecarMode === "passive");
  const doubtful = active.filter(({ runtimeProblems }) => runtimeProblems.length > 0);
  return [
    ...passive.map(
      ({ agentId }): StatusWarning => ({
        kind: "passive-sidecar",
        agentId,
        message: `${agentId} in passive mode (no exec/shell support)`,
        fix: passiveFix,
      }),
    ),
    ...doubtful.map(
      ({ agentId, runtimeProblems }): StatusWarning => ({
        kind: "runtime-doubtful",
        agentId,
        message: `${agentId} ${runtimeProblems.join("; it ")}`,
        fix: `Check the host; if the agent was tampered with, revoke it: coral agent revoke ${agentId}`,
      }),
    ),
    ...legacyWarnings(registration, active.filter(({ isLegacy }) => isLegacy).length, active.length),
  ];
}

function legacyWarnings(registration: ColonyFacts["registration"], legacy: number, total: number): StatusWarning[] {
  if (legacy === 0 || !registration || registration.legacyPhase === "off" || registration.legacyPhase === "quiet") return [];
  const share = Math.round((legacy / total) * 10_000) / 100;
  const until = registration.legacyRejectAfter;
  const fate =
    registration.legacyPhase === "enforced"
      ? "; they are rejected when they register again"
      : until === null
        ? ""
        : `; they will be rejected after ${until}`;
  return [
    {
      kind: "legacy-agents",
      message: `${legacy} legacy ${legacy === 1 ? "agent" : "agents"} detected (${share}%)${fate}`,
      fix: registration.upgradeSteps.join("; "),
    },
  ];
}
