import type { ColonyEvent, EventList } from "../../tools/index.ts";
import { connectColony } from "../connection.ts";
import type { Invocation } from "../invocation.ts";
import type { StyleName } from "../output/style.ts";
import { tableOf } from "../output/table.ts";
import { localTime } from "../output/values.ts";
import { showAnswer } from "../show-answer.ts";

const severityStyles: Record<ColonyEvent["severity"], StyleName | undefined> = { info: undefined, warning: "yellow", error: "red" };

/** `coral events`: newest first. */
export async function run(invocation: Invocation): Promise<void> {
  const { options } = invocation;
  const colony = await connectColony(invocation);
  const agent = options.text("agent");
  const kind = options.text("kind");
  const since = options.durationText("since") ?? "1h";
  const limit = options.integer("limit", 1, 1_000);
  const input = {
    since,
    ...(agent === undefined ? {} : { agent }),
    ...(kind === undefined ? {} : { kind }),
    ...(limit === undefined ? {} : { limit }),
  };
  await showAnswer(invocation, () => colony.call<EventList>("coral_list_events", input), {
    table: ({ events }) => {
      const nowMs = Date.now();
      return tableOf(events, [
        { title: "TIME", key: "at", cell: (event) => localTime(event.at, nowMs), raw: (event) => event.at },
        {
          title: "SEVERITY",
          key: "severity",
          cell: (event) => styled(event.severity, severityStyles[event.severity]),
          raw: (event) => event.severity,
        },
        { title: "KIND", key: "kind", cell: (event) => event.kind },
        { title: "AGENT", key: "agentId", cell: (event) => event.agentId },
        { title: "MESSAGE", key: "message", cell: (event) => event.message },
        { title: "DETAILS", key: "details", cell: (event) => JSON.stringify(event.details), wide: true },
      ]);
    },
    empty: `Nothing happened in the last ${since}; look further back with --since`,
  });
}

function styled(text: string, style: StyleName | undefined): { text: string; style?: StyleName } {
  return style === undefined ? { text } : { text, style };
}
