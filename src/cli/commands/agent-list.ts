import { escapeText } from "../../base/escape-text.ts";
import type { AgentInfo, AgentList } from "../../tools/index.ts";
import { connectColony } from "../connection.ts";
import type { Invocation } from "../invocation.ts";
import { type Column, tableOf } from "../output/table.ts";
import { ago, duration, relative } from "../output/values.ts";
import type { Printer } from "../printer.ts";
import { showAnswer } from "../show-answer.ts";
import { healthCell, healthStyle } from "./health-style.ts";

type AgentLine = AgentList["agents"][number];

const limit = 1_000;

/** `coral agent list`: a table; with --verbose a page of each agent. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, args, format, print } = invocation;
  const colony = await connectColony(invocation);
  const verbose = options.flag("verbose");
  const detailed = verbose || format === "wide" || format === "csv";
  const health = options.text("health");
  const input = {
    verbose: detailed,
    limit,
    ...(args[0] === undefined ? {} : { match: args[0] }),
    ...(health === undefined ? {} : { health }),
  };
  await showAnswer(invocation, () => colony.call<AgentList>("coral_list_agents", input), {
    table: (answer) => tableOf(answer.agents, detailed ? [...columns, ...detailColumns(Date.now())] : columns),
    ...(verbose ? { page: (answer: AgentList) => answer.agents.map((agent) => agentPage(agent, print, Date.now())).join("\n") } : {}),
    empty:
      args[0] === undefined && health === undefined
        ? 'No agent has joined this colony; start one with "coral agent start", or make a token for another host with "coral colony token create"'
        : "No agent matches",
  });
}

function agentPage(agent: AgentLine, { style }: Printer, nowMs: number): string {
  const { details } = agent;
  const state = agent.revoked ? style("dim", "revoked") : style(healthStyle(agent.health), agent.health);
  const facts: [string, string | null | undefined][] = [
    ["reason", agent.healthReason],
    ["contact", `${ago(agent.lastContactAgoMs) ?? "never"}, newest row ${duration(agent.pullLagMs) ?? "-"} old`],
    ["host", details && `${details.os} · kernel ${details.kernel} · ${details.arch}`],
    ["certificate", details?.certificateExpiresAt && `ends ${relative(details.certificateExpiresAt, nowMs)}`],
    ["clock", details && clockText(details.clockDifferenceMs)],
    ["first seen", details && relative(details.firstSeenAt, nowMs)],
    ["labels", details && pairs(details.labels)],
    ...(details?.capabilities ?? []).map((capability): [string, string] => [
      capability.available ? "can" : "cannot",
      capability.available ? capability.name : `${capability.name}: ${capability.reason}`,
    ]),
  ];
  const head = `${style("bold", escapeText(agent.hostname))}  ${escapeText(agent.agentId)} · ${state} · ${agent.connected ? "connected" : "not connected"} · coral ${escapeText(agent.version)}`;
  const lines = facts.filter(([, text]) => text).map(([name, text]) => `  ${style("dim", name.padEnd(12))} ${escapeText(text ?? "")}`);
  return `${[head, ...lines].join("\n")}\n`;
}

const columns: readonly Column<AgentLine>[] = [
  { title: "HOST", key: "hostname", cell: (agent) => agent.hostname },
  { title: "AGENT", key: "agentId", cell: (agent) => agent.agentId },
  {
    title: "HEALTH",
    key: "health",
    cell: (agent) => (agent.revoked ? { text: "revoked", style: "dim" } : healthCell(agent.health)),
    raw: (agent) => agent.health,
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
  { title: "LAG", key: "pullLagMs", cell: (agent) => duration(agent.pullLagMs), raw: (agent) => agent.pullLagMs, align: "right" },
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

function clockText(differenceMs: number | null): string | null {
  if (differenceMs === null) return null;
  return `${differenceMs < 0 ? "-" : "+"}${duration(Math.abs(differenceMs))}`;
}

function pairs(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

function unavailable({ capabilities }: AgentInfo): string {
  const names = capabilities.filter((capability) => !capability.available).map((capability) => capability.name);
  return names.join(",");
}
