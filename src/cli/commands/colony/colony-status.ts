import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../../base/units.ts";
import type { ColonyStatus } from "../../../tools/index.ts";
import { tableOf, valueColumn } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { caution, yes } from "../agent/runtime-text.ts";
import { agentTable, distributionLines, warningLines } from "./colony-page.ts";

/** `coral colony status`: the process, its store, its agents and where they run, and warnings. */
export async function run(invocation: Invocation): Promise<void> {
  const colony = await connectColony(invocation);
  await showAnswer(invocation, () => colony.call("coral_get_status", {}), {
    table: (answer) =>
      tableOf(
        [answer],
        [
          { title: "COLONY", key: "colonyId", cell: (row) => row.colony.colonyId },
          { title: "NAME", key: "name", cell: (row) => row.colony.name },
          { title: "ENV", key: "environment", cell: (row) => row.colony.environment },
          { title: "VERSION", key: "version", cell: (row) => row.colony.version },
          { title: "PID", key: "pid", cell: (row) => row.colony.pid },
          valueColumn("UP", "uptimeMs", (row) => row.colony.uptimeMs, formatDurationMs),
          { title: "AGENTS", key: "agents", cell: (row) => row.agents.total },
          valueColumn("STORE", "usedBytes", (row) => row.store.usedBytes, formatBytes),
        ],
      ),
    page: (answer, wide) => page(answer, invocation, wide),
    pageShows: (answer, note) => answer.warnings.some((warning) => warning.kind === note.kind),
  });
}

/** Zero counts are dropped from the health line, so a healthy colony reads `3 connected (3 healthy)`. */
function page(answer: ColonyStatus, { print }: Invocation, wide: boolean): string {
  const { colony, agents, store } = answer;
  const { style } = print;
  const limit = store.limitBytes === null ? "" : ` of ${formatBytes(store.limitBytes)}`;
  const free = store.diskFreeBytes === null ? "" : `, ${formatBytes(store.diskFreeBytes)} free on the disk`;
  const state =
    store.writeProblem === "" ? `${yes} Running` : `${caution}  Running, but cannot store rows: ${escapeText(store.writeProblem)}`;
  const health = [`${agents.healthy} healthy`, `${agents.degraded} degraded`, `${agents.unhealthy} unhealthy`].filter(
    (text) => !text.startsWith("0 "),
  );
  const { connected } = agents;
  const gone = connected < agents.total ? `${connected} of ${agents.total} connected` : `${connected} connected`;
  const heads: [string, string][] = [
    ["Colony", escapeText(colony.colonyId)],
    ["Status", state],
    ["Uptime", formatDurationMs(colony.uptimeMs)],
    ["Agents", agents.total === 0 ? "none" : `${gone} (${health.join(", ")})`],
  ];
  const facts: [string, string][] = [
    ["Environment", `${colony.environment} (${colony.name})`],
    ["Version", `v${colony.version}, pid ${colony.pid}`],
    ["Started", colony.startedAt],
    ["Storage", `${formatBytes(store.usedBytes)}${limit}${free}`],
    ...colony.endpoints.map((endpoint): [string, string] => ["Endpoint", endpoint]),
  ];
  const lines = [
    ...heads.map(([name, text]) => `${style("bold", `${name}:`)} ${text}`),
    "",
    ...facts.map(([name, text]) => `${`${name}:`.padEnd(12)} ${escapeText(text)}`),
    ...agentTable(answer, print, wide),
    ...distributionLines(answer, print),
    ...warningLines(answer, print),
  ];
  return `${lines.join("\n")}\n`;
}
