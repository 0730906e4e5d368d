import { tableOf } from "../../output/table.ts";
import { localTime } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";
import { severityCell } from "../query/severity-cell.ts";

/** `coral events`: newest first. */
export async function run(invocation: Invocation): Promise<void> {
  const { since } = toolInput(invocation, "coral_list_events");
  await showTool(invocation, "coral_list_events", {
    table: ({ events }) => {
      const nowMs = Date.now();
      return tableOf(events, [
        { title: "TIME", key: "at", cell: (event) => localTime(event.at, nowMs), raw: (event) => event.at },
        { title: "SEVERITY", key: "severity", cell: severityCell },
        { title: "KIND", key: "kind", cell: (event) => event.kind },
        { title: "AGENT", key: "agentId", cell: (event) => event.agentId },
        { title: "SERVICE", key: "service", cell: (event) => event.service },
        { title: "MESSAGE", key: "message", cell: (event) => event.message },
        { title: "DETAILS", key: "details", cell: (event) => JSON.stringify(event.details), wide: true },
      ]);
    },
    empty: `No events in the last ${since}; look further back with --since`,
  });
}
