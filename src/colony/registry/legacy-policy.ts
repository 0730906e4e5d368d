/** The policy for legacy agents, which do not report a runtime context: accept, warn, warn with a date, reject. */

import { CoralError } from "../../base/errors.ts";
import type { ColonyRegistryConfig, LegacyPolicy } from "../../config/index.ts";
import { runtimeProtocolVersion } from "../../model/runtime-facts.ts";

/** `off`: accepted; `quiet`: accepted, before the warning date; `grace`: warned; `transition`: warned with a date; `enforced`: refused. */
export type LegacyPhase = "off" | "quiet" | "grace" | "transition" | "enforced";

/** First version of Coral that reports its runtime context. */
export const firstRuntimeVersion = "0.1.0";

export function legacyPhase({ isEnabled, warnAfterMs, rejectAfterMs }: LegacyPolicy, nowMs: number): LegacyPhase {
  if (!isEnabled) return "off";
  if (rejectAfterMs !== null) return nowMs >= rejectAfterMs ? "enforced" : "transition";
  return warnAfterMs === null || nowMs >= warnAfterMs ? "grace" : "quiet";
}

/** `2024-09-01`. */
export function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}

export interface RegisteringAgent {
  agentId: string;
  version: string;
  protocolVersion: number;
  hasRuntime: boolean;
}

/**
 * Throws `not-permitted`, with the steps to fix it, for an agent that may not register. Otherwise returns what to log about it, if anything.
 */
export function checkLegacy(
  agent: RegisteringAgent,
  config: ColonyRegistryConfig,
  nowMs: number,
): { level: "warn" | "error"; message: string } | undefined {
  if (agent.protocolVersion >= runtimeProtocolVersion) {
    if (agent.hasRuntime || !config.requireRuntimeContext) return undefined;
    throw new CoralError({
      code: "not-permitted",
      message: `Cannot register agent "${agent.agentId}": this colony requires a runtime context, but the agent's config has runtime.reporting.enabled: false; set it to true and restart the agent`,
    });
  }
  const phase = legacyPhase(config.legacy, nowMs);
  if (config.requireRuntimeContext || phase === "enforced") throw refusal(agent);
  const until = config.legacy.rejectAfterMs;
  const message = `Agent ${agent.agentId} is a legacy agent (coral ${agent.version}, protocol ${agent.protocolVersion}): it does not report its runtime`;
  if (phase === "grace") return { level: "warn", message: `${message}; upgrade it` };
  if (phase === "transition" && until !== null)
    return { level: "error", message: `${message}; it will be refused from ${dayOf(until)} on; upgrade it` };
  return undefined;
}

/** The error that the agent prints. */
export const upgradeSteps: readonly string[] = [
  "Update coral on the agent's host: git pull && npm run setup in its checkout",
  "Restart the agent: coral agent stop && coral agent start --daemon",
  "Verify: coral agent status (it shows Runtime)",
];

function refusal({ agentId, version }: RegisteringAgent): CoralError {
  const steps = upgradeSteps.map((step, index) => `  ${index + 1}. ${step}`);
  const lines = [
    "Agent registration rejected",
    "",
    `Agent: ${agentId}`,
    `Version: v${version} (legacy)`,
    "Reason: Protocol version too old (runtime context required)",
    "",
    "Your agent version is no longer supported. Please upgrade:",
    "",
    ...steps,
    "",
    `Minimum required version: v${firstRuntimeVersion} with protocol ${runtimeProtocolVersion}`,
    `Current version: v${version}`,
    "",
    "See: docs/runtime.md",
  ];
  return new CoralError({
    code: "not-permitted",
    message: lines.join("\n"),
    details: { agentId, version, minimumProtocol: runtimeProtocolVersion },
  });
}
