/** One agent of `coral agent list --verbose`, in a frame. */

import { escapeText } from "../../../base/escape-text.ts";
import { formatBitRate, formatBytes } from "../../../base/units.ts";
import type { AgentInfo, AgentList } from "../../../tools/index.ts";
import type { BoxLine } from "../../output/box.ts";
import { ago, duration, relative } from "../../output/values.ts";
import { healthStyle } from "../service/health-style.ts";
import {
  caution,
  containerRuntimeText,
  containersText,
  isForcedContainer,
  no,
  orderedCapabilities,
  passiveAdvice,
  platformText,
  runtimeText,
  scopeText,
  utcText,
  yes,
} from "./runtime-text.ts";

type AgentLine = AgentList["agents"][number];

/** Most terminals draw `caution` (U+26A0) one cell wide and the other two signs two cells wide, hence the extra space. */
const marks: Readonly<Record<string, string>> = { healthy: yes, degraded: `${caution} `, unhealthy: no };
const empty: BoxLine = { text: "" };

/** Lines of one frame. Details are present only in the verbose answer. */
export function agentBox(agent: AgentLine, nowMs: number): BoxLine[] {
  const { details } = agent;
  const health = agent.revoked ? "revoked" : agent.health;
  const contact = ago(agent.lastContactAgoMs) ?? "never";
  const lines: BoxLine[] = [
    fact("Component", escapeText(agent.component ?? agent.hostname)),
    {
      text: `${"Status:".padEnd(14)}${agent.revoked ? no : (marks[agent.health] ?? caution)} ${health} (${contact})`,
      style: { name: agent.revoked ? "dim" : healthStyle(agent.health), part: health },
    },
    ...(agent.healthReason === "" ? [] : [fact("", escapeText(agent.healthReason))]),
    fact("Version", `v${escapeText(agent.version)}${agent.isLegacy ? " (legacy)" : ""}`),
  ];
  if (details) lines.push(empty, ...runtimeLines(details), empty, ...ownLines(details, agent, nowMs));
  return lines;
}

/** Platform, runtime, capabilities and visibility, as the agent reported them. */
function runtimeLines({ runtime, runtimeProblems, isLegacy, os, kernel, arch }: AgentInfo): BoxLine[] {
  if (!runtime) {
    // An agent without a runtime context still reported its kernel at registration.
    const why = isLegacy ? "unknown (legacy agent: upgrade it)" : "unknown (not reported by the agent)";
    return [
      fact("Platform", `${escapeText(os)} ${escapeText(arch)}`),
      fact("", `Kernel ${escapeText(kernel)}`),
      empty,
      fact("Runtime", why),
    ];
  }
  const { platform, containerRuntime } = runtime;
  const isSidecar = runtime.runtimeType === "k8s-sidecar";
  const facts = orderedCapabilities(runtime);
  return [
    fact("Platform", `${platformText(platform)} ${escapeText(platform.arch)}`),
    fact("", `Kernel ${escapeText(platform.kernel)}`),
    empty,
    fact("Runtime", `${runtimeText(runtime)}${runtime.isOverridden ? ", by config" : ""}`),
    ...(containerRuntime
      ? [fact("CRI", containerRuntimeText(containerRuntime)), fact("Socket", escapeText(containerRuntime.socketPath))]
      : // Only a sidecar needs a container runtime, to run commands in the other containers of its pod.
        isSidecar
        ? [fact("CRI", `${no} Not available`)]
        : []),
    fact("Detected", utcText(runtime.detectedAt)),
    empty,
    { text: "Capabilities:" },
    ...rowsOf(facts.map(({ name, available }) => `${available ? yes : no} ${escapeText(name)}`)),
    ...(isForcedContainer(runtime)
      ? [{ text: `  (run forced to container mode on ${platformText({ ...platform, osVersion: "" })})` }]
      : []),
    ...facts.flatMap(({ name, available, reason }) =>
      available
        ? []
        : [{ text: `    ${escapeText(name)}: ${escapeText(reason)}`, style: { name: "yellow" as const, part: escapeText(reason) } }],
    ),
    empty,
    { text: "Visibility:" },
    fact("  Scope", scopeText(runtime)),
    fact("  Namespace", escapeText(runtime.visibility.namespace)),
    fact("  Containers", containersText(runtime)),
    ...runtimeProblems.map((problem): BoxLine => ({ text: `${caution}  It ${escapeText(problem)}` })),
    ...(runtime.sidecarMode === "passive" ? [empty, ...passiveAdvice.map((text): BoxLine => ({ text }))] : []),
  ];
}

/** Facts that the colony adds to the agent's own report. */
function ownLines(details: AgentInfo, agent: AgentLine, nowMs: number): BoxLine[] {
  const labels = Object.entries(details.labels).map(([name, value]) => `${name}=${value}`);
  const clock = details.clockDifferenceMs;
  const facts: [string, string | null][] = [
    ["Mesh", agent.connected ? "connected" : "not connected"],
    ["Host", escapeText(details.hostname)],
    ["Lag", duration(agent.pullLagMs)],
    ["Link", linkText(agent.link)],
    ["Certificate", details.certificateExpiresAt && `ends ${relative(details.certificateExpiresAt, nowMs)}`],
    ["Clock", clock === null ? null : `${clock < 0 ? "-" : "+"}${duration(Math.abs(clock))}`],
    ["First seen", relative(details.firstSeenAt, nowMs)],
    ["Labels", labels.length === 0 ? null : escapeText(labels.join(","))],
  ];
  // With a runtime context, the capability list above shows the reasons.
  const cannot = details.runtime ? [] : details.capabilities.filter(({ available }) => !available);
  return [
    ...facts.flatMap(([name, text]) => (text === null ? [] : [fact(name, text)])),
    ...cannot.map(({ name, reason }) => fact("Cannot", `${escapeText(name)}: ${escapeText(reason)}`)),
  ];
}

/** The four commands on one line, the other capabilities on the following ones. */
function rowsOf(parts: readonly string[]): BoxLine[] {
  const rows: string[][] = [parts.slice(0, 4)];
  for (let start = 4; start < parts.length; start += 5) rows.push(parts.slice(start, start + 5));
  return rows.map((row): BoxLine => ({ text: `  ${row.join("  ")}` }));
}

function fact(name: string, text: string): BoxLine {
  return { text: `${(name === "" ? "" : `${name}:`).padEnd(14)}${text}` };
}

/** Only for a slow link: small pulls are no measure of bandwidth. */
function linkText(link: AgentLine["link"]): string | null {
  if (!link?.isSlow) return null;
  return `slow: ${formatBytes(link.pullBytes)} took ${duration(link.pullMs)} (${formatBitRate(link.bytesPerSecond)})`;
}
