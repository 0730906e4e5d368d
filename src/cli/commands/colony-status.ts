import { escapeText } from "../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../base/units.ts";
import type { ColonyStatus } from "../../tools/index.ts";
import { connectColony } from "../connection.ts";
import type { Invocation } from "../invocation.ts";
import { tableOf } from "../output/table.ts";
import { showAnswer } from "../show-answer.ts";

/** `coral colony status`: the process, its store and its endpoints. */
export async function run(invocation: Invocation): Promise<void> {
  const colony = await connectColony(invocation);
  await showAnswer(invocation, () => colony.call<ColonyStatus>("coral_get_status", {}), {
    table: (answer) =>
      tableOf(
        [answer],
        [
          { title: "COLONY", key: "colonyId", cell: (row) => row.colony.colonyId },
          { title: "NAME", key: "name", cell: (row) => row.colony.name },
          { title: "ENV", key: "environment", cell: (row) => row.colony.environment },
          { title: "VERSION", key: "version", cell: (row) => row.colony.version },
          { title: "PID", key: "pid", cell: (row) => row.colony.pid },
          { title: "UP", key: "uptimeMs", cell: (row) => formatDurationMs(row.colony.uptimeMs), raw: (row) => row.colony.uptimeMs },
          { title: "AGENTS", key: "agents", cell: (row) => row.agents.total },
          { title: "STORE", key: "usedBytes", cell: (row) => formatBytes(row.store.usedBytes), raw: (row) => row.store.usedBytes },
        ],
      ),
    page: (answer) => page(answer, invocation),
  });
}

function page({ colony, agents, store, warnings }: ColonyStatus, { print }: Invocation): string {
  const { style } = print;
  const limit = store.limitBytes === null ? "" : ` of ${formatBytes(store.limitBytes)}`;
  const free = store.diskFreeBytes === null ? "" : `, ${formatBytes(store.diskFreeBytes)} free on the disk`;
  const facts: [string, string][] = [
    ["colony", colony.colonyId],
    ["name", `${colony.name} (${colony.environment})`],
    ["version", colony.version],
    ["pid", String(colony.pid)],
    ["started", `${colony.startedAt} (${formatDurationMs(colony.uptimeMs)} ago)`],
    ...colony.endpoints.map((endpoint): [string, string] => ["endpoint", endpoint]),
    ["agents", `${agents.total}: ${agents.healthy} healthy, ${agents.degraded} degraded, ${agents.unhealthy} unhealthy`],
    ["store", `${formatBytes(store.usedBytes)}${limit}${free}`],
    ...(store.writeProblem === "" ? [] : [["problem", store.writeProblem] as [string, string]]),
  ];
  const lines = facts.map(([name, text]) => `${style("dim", name.padEnd(9))} ${escapeText(text)}`);
  for (const warning of warnings)
    lines.push(`${style("yellow", "!")} ${escapeText(warning.message)}; ${print.commands(escapeText(warning.fix))}`);
  return `${lines.join("\n")}\n`;
}
