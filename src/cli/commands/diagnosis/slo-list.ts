import type { ObjectiveList } from "../../../tools/index.ts";
import { type Table, tableOf } from "../../output/table.ts";
import { latency, percent, relative } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";

/** `coral slo list`. */
export async function run(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_slo", {
    table: ({ objectives }) => objectiveTable(objectives),
    empty: "no objectives are declared: services are judged against their own baselines; see coral slo set --help",
  });
}

export function objectiveTable(objectives: ObjectiveList["objectives"]): Table {
  return tableOf(objectives, [
    { title: "SERVICE", key: "service", cell: ({ service }) => service },
    { title: "ROUTE", key: "route", cell: ({ route }) => (route === "" ? "all requests" : route), raw: ({ route }) => route },
    { title: "P95", key: "p95Us", cell: ({ p95Us }) => latency(p95Us), raw: ({ p95Us }) => p95Us, align: "right" },
    {
      title: "ERRORS",
      key: "errorRatio",
      cell: ({ errorRatio }) => percent(errorRatio),
      raw: ({ errorRatio }) => errorRatio,
      align: "right",
    },
    { title: "SET", key: "setAt", cell: ({ setAt }) => relative(setAt, Date.now()), raw: ({ setAt }) => setAt },
    { title: "BY", key: "setBy", cell: ({ setBy }) => setBy, wide: true },
  ]);
}
