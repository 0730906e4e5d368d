/** `coral slo`: what services promise. */

import type { ObjectiveList } from "../../../tools/index.ts";
import { type Table, tableOf, valueColumn } from "../../output/table.ts";
import { latency, percent, relative } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";

/** `coral slo list`. */
export async function listObjectives(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_slo", {
    table: ({ objectives }) => objectiveTable(objectives),
    empty: "no objectives are declared: services are judged against their own baselines; see coral slo set --help",
  });
}

/** `coral slo set <service>`. */
export async function setObjective(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_set_slo", {
    table: (objective) => objectiveTable([objective]),
    after: () => invocation.print.note("a breach opens an incident; coral slo list shows all objectives"),
  });
}

/** `coral slo remove <service>`. */
export async function removeObjective(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_remove_slo", {
    table: (answer) => tableOf([answer], [{ title: "REMOVED", key: "removed", cell: ({ removed }) => removed }]),
    page: () => "",
    after: () => invocation.print.note("objective removed; the service is judged against its baseline again"),
  });
}

function objectiveTable(objectives: ObjectiveList["objectives"]): Table {
  return tableOf(objectives, [
    { title: "SERVICE", key: "service", cell: ({ service }) => service },
    { title: "ROUTE", key: "route", cell: ({ route }) => (route === "" ? "all requests" : route), raw: ({ route }) => route },
    valueColumn("P95", "p95Us", ({ p95Us }) => p95Us, latency, { align: "right" }),
    valueColumn("ERRORS", "errorRatio", ({ errorRatio }) => errorRatio, percent, { align: "right" }),
    { title: "SET", key: "setAt", cell: ({ setAt }) => relative(setAt, Date.now()), raw: ({ setAt }) => setAt },
    { title: "BY", key: "setBy", cell: ({ setBy }) => setBy, wide: true },
  ]);
}
