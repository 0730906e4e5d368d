import type { AgentInfo, AgentList } from "../../tools/index.ts";
import { connectColony } from "../connection.ts";
import type { Invocation } from "../invocation.ts";
import { type Column, tableOf } from "../output/table.ts";
import { ago, duration, relative } from "../output/values.ts";
import { showAnswer } from "../show-answer.ts";
import { healthCell } from "./health-style.ts";

type AgentLine = AgentList["agents"][number];

const limit = 1_000;

/** `coral agent list`. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, args, format } = invocation;
  const colony = await connectColony(invocation);
  const verbose = options.flag("verbose") || format === "wide" || format === "csv";
  const health = options.text("health");
  const input = { verbose, limit, ...(args[0] === undefined ? {} : { match: args[0] }), ...(health === undefined ? {} : { health }) };
  await showAnswer(invocation, () => colony.call<AgentList>("coral_list_agents", input), {
    table: (answer) => tableOf(answer.agents, verbose ? [...columns, ...detailColumns(Date.now())] : columns),
    empty:
      args[0] === undefined && health === undefined
        ? 'No agent has joined this colony; start one with "coral agent start", or make a token for another host with "coral colony token create"'
        : "No agent matches",
  });
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
    { title: "KERNEL", key: "kernel", cell: of((details) => details.kernel) },
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
    {
      title: "UNAVAILABLE",
      key: "unavailable",
      cell: of((details) =>
        details.capabilities
          .filter((capability) => !capability.available)
          .map((capability) => capability.name)
          .join(","),
      ),
    },
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
