import { escapeText } from "../../../base/escape-text.ts";
import { shortRuntimeLabel } from "../../../model/runtime-facts.ts";
import type { AgentInfo, AgentList } from "../../../tools/index.ts";
import { boxWidth, renderBox } from "../../output/box.ts";
import type { Printer } from "../../output/printer.ts";
import { type Column, tableOf, valueColumn } from "../../output/table.ts";
import { ago, duration, plural, relative } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { toolInput } from "../../run/show-tool.ts";
import { healthCell } from "../service/health-style.ts";
import { agentBox } from "./agent-box.ts";

type AgentLine = AgentList["agents"][number];

/** Agents per answer, the maximum of the tool; larger fleets need filters. */
const limit = 1_000;

/** `coral agent list`: a table; with --verbose a page of each agent. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, format, print } = invocation;
  const verbose = options.flag("verbose");
  // wide and csv print columns that only the verbose answer has.
  const detailed = verbose || format === "wide" || format === "csv";
  const { verbose: _verbose, ...filters } = toolInput(invocation, "coral_list_agents");
  const colony = await connectColony(invocation);
  await showAnswer(invocation, () => colony.call("coral_list_agents", { ...filters, verbose: detailed, limit }), {
    table: (answer) => tableOf(answer.agents, detailed ? [...columns, ...detailColumns(Date.now())] : columns),
    // Without --verbose there is no page: -o table prints the table.
    ...(verbose ? { page: (answer: AgentList) => boxes(answer, colony.name, print, Date.now()) } : {}),
    empty:
      Object.keys(filters).length === 0
        ? 'No agent has joined this colony; start one with "coral agent start", or create a token for another host with "coral colony token create"'
        : "No agent matches",
  });
}

/** All boxes get the width of the widest line, so that their frames align. */
function boxes({ agents }: AgentList, colony: string, { style, width }: Printer, nowMs: number): string {
  if (agents.length === 0) return "";
  const connected = agents.filter((agent) => agent.connected).length;
  const rest = agents.length - connected;
  const head = `${plural(connected, "agent")} connected to colony: ${escapeText(colony)}${rest > 0 ? `, ${rest} not connected` : ""}`;
  const pages = agents.map((agent) => ({ title: escapeText(agent.agentId), lines: agentBox(agent, nowMs) }));
  const inner = boxWidth(
    pages.flatMap(({ lines }) => lines),
    width,
  );
  return [`${head}\n`, ...pages.map(({ title, lines }) => renderBox(title, lines, inner, style))].join("\n");
}

const columns: readonly Column<AgentLine>[] = [
  { title: "HOST", key: "hostname", cell: (agent) => agent.hostname },
  { title: "AGENT", key: "agentId", cell: (agent) => agent.agentId },
  {
    title: "HEALTH",
    key: "health",
    cell: (agent) => (agent.revoked ? { text: "revoked", style: "dim" } : healthCell(agent.health, agent.link?.isSlow)),
    raw: (agent) => agent.health,
  },
  {
    title: "RUNTIME",
    key: "runtimeType",
    cell: (agent) =>
      // A legacy agent may have every capability: unknown is not unsupported.
      agent.isLegacy ? { text: "unknown (legacy)", style: "yellow" } : shortRuntimeLabel(agent.runtimeType ?? "") || "unknown",
    raw: (agent) => agent.runtimeType,
  },
  {
    title: "MODE",
    key: "mode",
    cell: (agent) => (agent.mode === "Passive" ? { text: agent.mode, style: "yellow" } : (agent.mode ?? "-")),
  },
  {
    title: "CONNECTED",
    key: "connected",
    cell: (agent) => (agent.connected ? "yes" : { text: "no", style: "yellow" }),
    raw: (agent) => agent.connected,
  },
  {
    title: "LAST CONTACT",
    key: "lastContactAgoMs",
    cell: (agent) => ago(agent.lastContactAgoMs) ?? "never",
    raw: (agent) => agent.lastContactAgoMs,
  },
  valueColumn("LAG", "pullLagMs", (agent) => agent.pullLagMs, duration, { align: "right" }),
  { title: "VERSION", key: "version", cell: (agent) => agent.version },
  { title: "REASON", key: "healthReason", cell: (agent) => agent.healthReason },
];

function detailColumns(nowMs: number): readonly Column<AgentLine>[] {
  const of =
    <T>(read: (details: AgentInfo) => T) =>
    (agent: AgentLine): T | undefined =>
      agent.details && read(agent.details);
  return [
    { title: "OS", key: "os", cell: of((details) => details.os) },
    { title: "KERNEL", key: "kernel", cell: of((details) => details.kernel), align: "left" },
    { title: "ARCH", key: "arch", cell: of((details) => details.arch) },
    {
      title: "CERTIFICATE ENDS",
      key: "certificateExpiresAt",
      cell: of((details) => relative(details.certificateExpiresAt, nowMs)),
      raw: of((details) => details.certificateExpiresAt),
    },
    {
      title: "CLOCK",
      key: "clockDifferenceMs",
      cell: of((details) => clockText(details.clockDifferenceMs)),
      raw: of((details) => details.clockDifferenceMs),
      align: "right",
    },
    {
      title: "FIRST SEEN",
      key: "firstSeenAt",
      cell: of((details) => relative(details.firstSeenAt, nowMs)),
      raw: of((details) => details.firstSeenAt),
    },
    { title: "LABELS", key: "labels", cell: of((details) => pairs(details.labels)) },
    { title: "UNAVAILABLE", key: "unavailable", cell: of(unavailable) },
  ];
}

/** The agent's clock minus the colony's, at registration. */
function clockText(differenceMs: number | null): string | null {
  if (differenceMs === null) return null;
  return `${differenceMs < 0 ? "-" : "+"}${duration(Math.abs(differenceMs))}`;
}

function pairs(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

/** Names only; reasons are in the boxes of --verbose. */
function unavailable({ capabilities, runtime }: AgentInfo): string {
  const names = (runtime?.capabilities ?? capabilities).filter((capability) => !capability.available).map((capability) => capability.name);
  return names.join(",");
}
