import { escapeText } from "../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../base/units.ts";
import type { AgentStatus } from "../../tools/index.ts";
import { askAgent } from "../connection.ts";
import type { Invocation } from "../invocation.ts";
import type { StyleName } from "../output/style.ts";
import { type Table, tableOf } from "../output/table.ts";
import { number, percent, relative } from "../output/values.ts";
import { showAnswer } from "../show-answer.ts";

const stateStyles: Record<AgentStatus["colony"]["state"], StyleName> = {
  connected: "green",
  joining: "yellow",
  connecting: "yellow",
  refused: "red",
};

/** `coral agent status`: asks the agent of this host itself, so that it works without a colony. */
export async function run(invocation: Invocation): Promise<void> {
  await showAnswer(invocation, () => askAgent<AgentStatus>(invocation, "/v1/status"), {
    table: (status) => agentTable(status),
    page: (status, wide) => page(status, invocation, wide, Date.now()),
  });
}

function agentTable(status: AgentStatus): Table {
  return tableOf(
    [status],
    [
      { title: "AGENT", key: "agentId", cell: (row) => row.agentId },
      { title: "HOST", key: "hostname", cell: (row) => row.hostname },
      { title: "STATE", key: "state", cell: (row) => row.colony.state },
      { title: "COLONY", key: "colonyId", cell: (row) => row.colony.id },
      { title: "ENDPOINT", key: "endpoint", cell: (row) => row.colony.endpoint },
      { title: "PID", key: "pid", cell: (row) => row.pid },
      { title: "VERSION", key: "version", cell: (row) => row.version },
      { title: "STARTED", key: "startedAt", cell: (row) => row.startedAt },
      { title: "STORE", key: "fileBytes", cell: (row) => row.store.fileBytes },
      { title: "RSS", key: "rssBytes", cell: (row) => row.process.rssBytes },
      { title: "CPU", key: "cpuRatio", cell: (row) => row.process.cpuRatio },
    ],
  );
}

function page(status: AgentStatus, { print }: Invocation, wide: boolean, nowMs: number): string {
  const { style } = print;
  const { colony, store, host } = status;
  const link = `${style(stateStyles[colony.state] ?? "yellow", colony.state)} (${relative(colony.since, nowMs)})`;
  const where = [colony.id ?? "no colony yet", colony.endpoint].filter((part) => part !== null).join(" at ");
  const rows = Object.values(store.rowsBySignal).reduce((sum, count) => sum + count, 0);
  const oldest = store.oldestAt === undefined ? "" : `, oldest ${relative(store.oldestAt, nowMs)}`;
  const lines = [
    `${style("bold", escapeText(status.hostname))}  ${escapeText(status.agentId)} · coral ${escapeText(status.version)} · pid ${status.pid} · up ${formatDurationMs(Math.max(0, nowMs - Date.parse(status.startedAt)))}`,
    "",
    `  colony     ${escapeText(where)}, ${link}`,
  ];
  if (colony.lastError !== undefined) lines.push(`             ${style("red", escapeText(colony.lastError))}`);
  if (colony.certificateExpiresAt !== undefined)
    lines.push(`  identity   certificate ends ${relative(colony.certificateExpiresAt, nowMs)}`);
  lines.push(`  store      ${formatBytes(store.fileBytes)}, ${rows} rows${oldest}`);
  if (wide) for (const [signal, count] of Object.entries(store.rowsBySignal)) lines.push(`             ${escapeText(signal)} ${count}`);
  if (host) {
    const memory = `memory ${percent(host.memUsedRatio)} of ${formatBytes(host.memTotalBytes)}`;
    lines.push(
      `  host       cpu ${percent(host.cpuBusyRatio)} of ${host.cpuCount} cores, ${memory}, load ${number(host.load1m)}, ${relative(host.sampledAt, nowMs)}`,
    );
  }
  lines.push(`  listeners  ${status.listeners.count}`);
  lines.push(`  cost       cpu ${percent(status.process.cpuRatio)} of a core, ${formatBytes(status.process.rssBytes)} memory`);
  for (const capability of status.capabilities) {
    if (!wide && capability.available) continue;
    const state = capability.available
      ? style("green", "available")
      : `${style("yellow", "unavailable")}: ${escapeText(capability.reason)}`;
    lines.push(`  ability    ${escapeText(capability.name)} ${state}`);
  }
  for (const loss of status.losses)
    lines.push(`  ${style("yellow", "!")} ${loss.rows} rows of ${escapeText(loss.signal)} lost: ${escapeText(loss.reason)}`);
  for (const note of status.notes) lines.push(`  ${style("yellow", "!")} ${escapeText(note)}`);
  return `${lines.join("\n")}\n`;
}
