import { given } from "../../../base/given.ts";
import type { EventList } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { localTime } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { severityCell } from "../query/severity-cell.ts";

/** `coral events`: newest first. */
export async function run(invocation: Invocation): Promise<void> {
  const { options } = invocation;
  const colony = await connectColony(invocation);
  const agent = options.text("agent");
  const kind = options.text("kind");
  const service = options.text("service");
  const since = options.durationText("since") ?? "1h";
  const limit = options.integer("limit", 1, 1_000);
  const input = {
    since,
    ...given({ agent, kind, service, limit }),
  };
  await showAnswer(invocation, () => colony.call<EventList>("coral_list_events", input), {
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
    empty: `Nothing happened in the last ${since}; look further back with --since`,
  });
}
