/** Explains why agents cannot run a command, with fixes. */

import { CoralError } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import { type CapabilityFact, modeLabel, type RuntimeFacts, runtimeLabel, shortRuntimeLabel } from "../../../model/runtime-facts.ts";
import type { RoutedTarget, SkippedTarget } from "../../../proto/coral/agent/v1/commands_pb.ts";
import type { ResolvedTargets, TargetAgent } from "../../../tools/index.ts";
import type { Style } from "../../output/style.ts";
import { targetNames } from "./command-output.ts";

/** Agents listed on the page; the rest is counted. */
const maxLines = 50;

/** Page for a command that no agent can run; exit code 2. */
export function unsupportedPage({ command, target, total, agents }: Omit<ResolvedTargets, "service" | "usable">, style: Style): string {
  const shown = agents.slice(0, maxLines);
  const names = targetNames(agents);
  const passive = agents.some((agent) => agent.reason.startsWith("passive mode"));
  const fixes = [...new Set(agents.flatMap((agent) => (agent.fix === "" ? [] : [agent.fix])))];
  return [
    `${style("red", "Error:")} Command '${command}' not supported by any target agents`,
    "",
    `Target: ${escapeText(target)} (${total} ${total === 1 ? "agent" : "agents"} resolved)`,
    "",
    "Agent compatibility:",
    ...shown.map((agent, index) => compatibilityLine(agent, names[index] ?? "")),
    ...(total > shown.length ? [`  … and ${total - shown.length} more`] : []),
    ...(fixes.length > 0 || passive ? ["", "Suggestion:"] : []),
    ...(passive ? passiveHelp : fixes.map((fix) => `  ${escapeText(fix)}`)),
    "",
  ].join("\n");
}

const passiveHelp = [
  "  Agents in passive mode don't support exec/shell.",
  "  Update pod spec to mount CRI socket (recommended) or enable shareProcessNamespace.",
  "  See: coral agent list --verbose",
];

/** Lists skipped agents with reason and fix; empty when none is skipped. A terminal uses only the first capable agent. */
export function skippedLines(
  targets: readonly Pick<RoutedTarget, "agentId" | "hostname">[],
  skipped: readonly Omit<SkippedTarget, "$typeName">[],
  isOneOfMany = false,
): string[] {
  if (skipped.length === 0) return [];
  const total = targets.length + skipped.length;
  const names = targetNames([...targets, ...skipped]).slice(targets.length);
  const shown = skipped.slice(0, maxLines);
  const fixes = [...new Set(shown.flatMap(({ fix }) => (fix === "" ? [] : [fix])))];
  return [
    ...(isOneOfMany ? [] : [`the command runs at ${targets.length} of ${total} agents`]),
    ...shown.map(({ reason }, index) => `${names[index]} was skipped: ${reason}`),
    ...(skipped.length > shown.length ? [`… and ${skipped.length - shown.length} more were skipped`] : []),
    ...fixes.map((fix) => `fix: ${fix}`),
  ];
}

function compatibilityLine({ runtime, supported, reason }: TargetAgent, name: string): string {
  const mark = supported ? "✅" : "❌";
  return escapeText(`  ${mark} ${name}: ${runtime}${reason === "" ? "" : ` - ${supported ? "" : "not supported "}(${reason})`}`);
}

export interface LocalProblem {
  command: string;
  agentId: string;
  runtime: RuntimeFacts;
  capability: CapabilityFact;
}

/** The same page for the agent of this machine. */
export function localUnsupportedPage({ command, agentId, runtime, capability }: LocalProblem, style: Style): string {
  const { reason, fix } = capability;
  const mode = modeLabel(runtime);
  const isPassive = runtime.sidecarMode === "passive";
  const place = mode === "-" ? shortRuntimeLabel(runtime.runtimeType) : `${shortRuntimeLabel(runtime.runtimeType)} (${mode})`;
  return [
    `${style("red", "Error:")} '${command}' not supported in ${escapeText(place)} mode`,
    "",
    `Agent: ${escapeText(agentId)}`,
    `Runtime: ${escapeText(runtimeLabel(runtime.runtimeType))}`,
    ...(mode === "-" ? [] : [`Mode: ${escapeText(mode)}${isPassive ? " (no CRI socket, no shared namespace)" : ""}`]),
    ...(isPassive && command !== "run" ? [] : [`Reason: ${escapeText(reason)}`]),
    ...(isPassive && command !== "run"
      ? ["", `To enable ${command}, update pod spec:`, "", ...podOptions]
      : fix === ""
        ? []
        : ["", `Fix: ${escapeText(fix)}`]),
    "",
  ].join("\n");
}

const podOptions = [
  "  Option 1 (Recommended): Mount CRI socket",
  "  Option 2: Enable shareProcessNamespace",
  "  See: coral agent list --verbose",
];

/** Parses the details of a refusal by the colony; undefined for other errors. */
export function refusedTargets(error: unknown): Omit<ResolvedTargets, "service" | "usable"> | undefined {
  if (!(error instanceof CoralError) || error.code !== "unsupported") return undefined;
  const { command, target, total, agents } = error.details as Partial<ResolvedTargets>;
  if (command === undefined || target === undefined || !Array.isArray(agents)) return undefined;
  return { command, target, total: total ?? agents.length, agents };
}
