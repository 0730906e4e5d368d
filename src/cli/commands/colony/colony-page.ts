/** The agents of `coral colony status`: a table, their distribution, and warnings with fixes. */

import { escapeText } from "../../../base/escape-text.ts";
import { shortRuntimeLabel } from "../../../model/runtime-facts.ts";
import type { ColonyStatus, RuntimeDistribution } from "../../../tools/index.ts";
import { type BoxCell, renderBoxTable } from "../../output/box.ts";
import type { Printer } from "../../output/printer.ts";
import { ago, plural } from "../../output/values.ts";
import { caution, no, yes } from "../agent/runtime-text.ts";
import { healthStyle } from "../service/health-style.ts";

type HostLine = ColonyStatus["hosts"][number];

const marks: Readonly<Record<string, string>> = { healthy: yes, degraded: caution, unhealthy: no };
const titles = ["AGENT ID", "COMPONENT", "STATUS", "RUNTIME", "MODE", "LAST SEEN"];

/** The status lists a bounded number of hosts; the rest is counted. */
export function agentTable({ hosts, agents }: ColonyStatus, { style, width, commands }: Printer, wide: boolean): string[] {
  if (hosts.length === 0) return [];
  const rows = hosts.toSorted((a, b) => a.agentId.localeCompare(b.agentId)).map(rowOf);
  const table = renderBoxTable(titles, rows, { width: wide ? undefined : width, style });
  const rest = agents.total - hosts.length;
  const more = rest > 0 ? [style("dim", commands(`… and ${plural(rest, "more agent")}; "coral agent list" has them all`))] : [];
  return ["", style("bold", "Agents:"), table.trimEnd(), ...more];
}

function rowOf(host: HostLine): BoxCell[] {
  const isPassive = host.mode === "Passive";
  return [
    { text: escapeText(host.agentId) },
    { text: escapeText(host.component ?? host.hostname) },
    { text: marks[host.health] ?? caution, style: healthStyle(host.health) },
    host.isLegacy
      ? { text: "unknown (legacy)", style: "red" }
      : { text: escapeText(shortRuntimeLabel(host.runtimeType ?? "")) || "unknown" },
    { text: escapeText(host.mode ?? "-"), style: isPassive ? "yellow" : undefined },
    { text: ago(host.lastContactAgoMs) ?? "never" },
  ];
}

/** Agents by platform and runtime, and the share with each capability. */
export function distributionLines(answer: ColonyStatus, { style }: Printer): string[] {
  // Older colonies do not report a distribution.
  const runtimes = answer.runtimes as RuntimeDistribution | undefined;
  if (!runtimes || answer.agents.total === 0) return [];
  const platforms = runtimes.platforms.map(({ name, agents, versions }): [string, number, string] => [
    name,
    agents,
    name === "Linux" ? counts(versions) : "forced container mode",
  ]);
  const types = runtimes.types.map(({ name, agents, modes }): [string, number, string] => [name, agents, counts(modes)]);
  // Commands come first, capabilities of newer agents last.
  const commands = ["run", "exec", "shell", "connect"];
  const shown = runtimes.capabilities.toSorted((a, b) => place(commands, a.name) - place(commands, b.name));
  return [
    ...section("Platform Distribution", platforms, style),
    ...section("Runtime Distribution", types, style),
    ...(shown.some(({ of }) => of > 0) ? ["", style("bold", "Capability Coverage:"), ...shown.map(coverage)] : []),
  ];
}

function place(names: readonly string[], name: string): number {
  const found = names.indexOf(name);
  return found < 0 ? names.length : found;
}

/** Legacy agents report no capabilities and are not counted in `of`. */
function coverage({ name, agents, of }: RuntimeDistribution["capabilities"][number]): string {
  const share = of === 0 ? 0 : Math.round((agents / of) * 100);
  return `  ${`${escapeText(name)}:`.padEnd(9)}${share}% (${agents}/${of} agents)`;
}

function counts(parts: readonly { name: string; agents: number }[]): string {
  return parts.map(({ name, agents }) => `${escapeText(name)}: ${agents}`).join(", ");
}

function section(title: string, lines: readonly [string, number, string][], style: Printer["style"]): string[] {
  if (lines.length === 0) return [];
  const width = Math.max(...lines.map(([name]) => name.length)) + 2;
  return [
    "",
    style("bold", `${title}:`),
    ...lines.map(([name, agents, more]) => {
      const count = plural(agents, "agent");
      return `  ${`${escapeText(name)}:`.padEnd(width)}${more === "" ? count : `${count.padEnd(8)} (${more})`}`.trimEnd();
    }),
  ];
}

/** Warnings with fixes. Legacy agents get upgrade steps, a passive sidecar a pointer to its details. */
export function warningLines({ warnings, runtimes }: ColonyStatus, print: Printer): string[] {
  const { style } = print;
  const lines = warnings.flatMap((warning) => {
    if (warning.kind === "legacy-agents") return legacyLines(warning.message, runtimes.legacy, print);
    const see =
      warning.kind === "passive-sidecar"
        ? [`    See: ${print.commands(`coral agent list ${escapeText(warning.agentId ?? "")} --verbose`)}`]
        : [];
    return [
      "",
      `${caution}  ${style("yellow", "Warning:")} ${escapeText(warning.message)}`,
      `    Fix: ${print.commands(escapeText(warning.fix))}`,
      ...see,
    ];
  });
  return lines;
}

/** Legacy agents listed by name. */
const listedMax = 5;

/** What, what happens to them, how to upgrade, and which agents are meant. */
function legacyLines(message: string, legacy: RuntimeDistribution["legacy"], { style, commands }: Printer): string[] {
  const [what = message, fate] = message.split("; ");
  const listed = legacy.listed.slice(0, listedMax);
  return [
    "",
    `${caution}  ${style(legacy.phase === "grace" ? "yellow" : "red", escapeText(what))}`,
    ...(fate === undefined ? [] : [`    ${escapeText(fate.replace(/^they /, "These agents "))}`]),
    "",
    "    Upgrade instructions:",
    ...legacy.upgradeSteps.map((step, index) => `      ${index + 1}. ${commands(escapeText(step))}`),
    "",
    "    Legacy agents:",
    ...listed.map(({ agentId, version }) => `      - ${escapeText(agentId)} (v${escapeText(version)})`),
    ...(legacy.agents > listed.length ? ["      ..."] : []),
  ];
}
