/** The part of `coral agent status` that describes the agent: platform, runtime, capabilities, visibility, colony, storage. */

import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes } from "../../../base/units.ts";
import type { AgentStatus } from "../../../tools/index.ts";
import type { Style, StyleName } from "../../output/style.ts";
import { padText } from "../../output/text-width.ts";
import { grouped, relative } from "../../output/values.ts";
import {
  capabilityTitle,
  caution,
  containerRuntimeText,
  containersText,
  isForcedContainer,
  modeText,
  no,
  orderedCapabilities,
  passiveAdvice,
  platformText,
  purposeText,
  runtimeText,
  scopeText,
  utcText,
  yes,
} from "./runtime-text.ts";

/** A labelled line of a section; null and undefined drop it, an empty name continues the line above. */
type Line = [name: string, text: string | null | undefined];

const stateTexts: Record<AgentStatus["colony"]["state"], [mark: string, text: string, style: StyleName]> = {
  connected: [yes, "Running (connected to colony)", "green"],
  joining: [caution, "Running (joining its colony)", "yellow"],
  connecting: [caution, "Running (not connected to its colony)", "yellow"],
  refused: [no, "Running (refused by its colony)", "red"],
};

export function agentHead(status: AgentStatus, style: Style): string[] {
  // A newer agent may report states that this CLI does not know.
  const [mark, text, colour] = stateTexts[status.colony.state] ?? [caution, status.colony.state, "yellow"];
  return [`${style("bold", "Agent:")} ${escapeText(status.agentId)}`, `${style("bold", "Status:")} ${mark} ${style(colour, text)}`];
}

export function platformLines(status: AgentStatus, style: Style): string[] {
  const platform = status.runtime?.platform;
  return block(style, "Platform", [
    ["OS", platform ? platformText(platform) : "unknown"],
    ["Architecture", platform && escapeText(platform.arch)],
    ["Kernel", platform && escapeText(platform.kernel)],
    ["Host", escapeText(status.hostname)],
    ["Agent", `v${escapeText(status.version)}`],
  ]);
}

/** Evidence of the detection only with -o wide: it explains a wrong result. */
export function runtimeLines({ runtime }: AgentStatus, style: Style, wide: boolean): string[] {
  if (!runtime) return block(style, "Runtime", [["Type", "unknown: the agent is older than this CLI"]]);
  const { containerRuntime } = runtime;
  // The mode in brackets gets its own line below.
  const type = isForcedContainer(runtime) ? runtimeText(runtime) : runtimeText({ ...runtime, sidecarMode: "" }).replace(/ \(.*\)$/, "");
  return block(style, "Runtime", [
    ["Type", runtime.isOverridden ? `${type} (by the agent's config)` : type],
    ["Mode", modeText(runtime)],
    ["CRI Socket", containerRuntime && escapeText(containerRuntime.socketPath)],
    ["CRI Runtime", containerRuntime ? containerRuntimeText(containerRuntime) : runtime.sidecarMode === "" ? null : `${no} Not available`],
    ["Detected", utcText(runtime.detectedAt)],
    ...(wide ? runtime.evidence.map((text): Line => ["Because", escapeText(text)]) : []),
  ]);
}

/** Capabilities with their purpose, or with the reason and the fix when absent. */
export function capabilityLines({ runtime, capabilities }: AgentStatus, style: Style): string[] {
  // Legacy agents report plain capabilities, without reason and fix.
  if (!runtime) {
    const lines = capabilities.map(
      ({ name, available, reason }) => `  ${available ? yes : no} ${escapeText(name)}${available ? "" : `: ${escapeText(reason)}`}`,
    );
    return ["", style("bold", "Capabilities:"), ...lines];
  }
  const facts = orderedCapabilities(runtime);
  const width = Math.max(15, ...facts.map(({ name }) => capabilityTitle(name).length + 2));
  const lines = facts.flatMap(({ name, available, reason, fix }) => {
    const forced = name === "run" && isForcedContainer(runtime) ? " (in a container)" : "";
    const text = available ? `${purposeText(name, runtime)}${forced}` : style("yellow", `Not supported (${escapeText(reason)})`);
    const line = `  ${available ? yes : no} ${padText(capabilityTitle(name), width, "left")} ${text}`.trimEnd();
    return !available && fix !== "" ? [line, `     ${" ".repeat(width)} Fix: ${escapeText(fix)}`] : [line];
  });
  const advice = runtime.sidecarMode === "passive" ? ["", ...passiveAdvice.map((text) => (text === "" ? "" : `  ${text}`))] : [];
  return ["", style("bold", "Capabilities:"), ...lines, ...advice];
}

export function visibilityLines({ runtime }: AgentStatus, style: Style): string[] {
  if (!runtime) return [];
  // In a pod this lists the containers that the agent may enter; on a host all that it sees.
  const name = runtime.visibility.podScope ? "Target Containers" : "Containers";
  return block(
    style,
    "Visibility",
    [
      ["Scope", scopeText(runtime)],
      ["Namespace", escapeText(runtime.visibility.namespace)],
      [name, containersText(runtime)],
    ],
    18,
  );
}

/** Connection to the colony. `URL` is the address that the agent dials. */
export function colonyLines({ colony }: AgentStatus, style: Style, nowMs: number): string[] {
  const isUp = colony.state === "connected";
  const since = relative(colony.since, nowMs) ?? "";
  return block(style, "Colony", [
    ["Connected", isUp ? `${yes} Yes (${since})` : `${no} No, ${colony.state} (${since})`],
    // A fix may span several lines.
    ...(colony.lastError ?? "")
      .split("\n")
      .flatMap((text, index): Line[] => (text === "" ? [] : [[index === 0 ? "Reason" : "", style("red", escapeText(text))]])),
    ["Colony", escapeText(colony.id ?? "none yet")],
    ["URL", colony.endpoint === null ? null : escapeText(colony.endpoint)],
    // The agent dials the colony, so this host needs no open port.
    ["Mesh", isUp ? "TLS 1.3 tunnel, opened by this agent" : null],
    ["Certificate", colony.certificateExpiresAt === undefined ? null : `ends ${relative(colony.certificateExpiresAt, nowMs)}`],
  ]);
}

/** Rows by signal only with -o wide. `oldest row` shows how far back the agent's own store reaches. */
export function storageLines({ store }: AgentStatus, style: Style, wide: boolean, nowMs: number): string[] {
  const rows = Object.values(store.rowsBySignal).reduce((sum, count) => sum + count, 0);
  return block(style, "Storage", [
    ["Path", store.directory === undefined ? null : escapeText(store.directory)],
    ["DuckDB", `${formatBytes(store.fileBytes)} (${grouped(rows)} rows)`],
    ["Retention", store.oldestAt === undefined ? null : `oldest row ${relative(store.oldestAt, nowMs)}`],
    ...(wide ? Object.entries(store.rowsBySignal).map(([signal, count]): Line => ["", `${escapeText(signal)} ${count}`]) : []),
  ]);
}

/** A heading with its lines; skips absent lines. */
function block(style: Style, title: string, lines: readonly Line[], width = 14): string[] {
  const shown = lines.flatMap(([name, text]) => {
    if (text === null || text === undefined) return [];
    const head = name === "" ? "" : `${name}:`;
    return [`  ${head.length < width ? head.padEnd(width) : `${head} `}${text}`];
  });
  return ["", style("bold", `${title}:`), ...shown];
}
