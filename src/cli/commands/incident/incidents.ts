import { CoralError } from "../../../base/errors.ts";
import type { IncidentBrief } from "../../../tools/index.ts";
import type { Column } from "../../output/table.ts";
import { tableOf, valueColumn } from "../../output/table.ts";
import { localTime, percent } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { incidentPage } from "./incident-page.ts";
import { lasted, stateStyle } from "./incident-text.ts";

/** `coral incidents [show] [id]`: the list, open ones first, or one incident on one screen. */
export async function run(invocation: Invocation): Promise<void> {
  const { print, args } = invocation;
  const id = idOf(args);
  const isShown = id !== undefined;
  await showTool(
    invocation,
    "coral_incidents",
    {
      table: ({ incidents, incident }) => tableOf(incident === null ? incidents : [incident], columns(Date.now())),
      ...(isShown ? { page: (answer) => (answer.incident === null ? "" : incidentPage(answer.incident, print, Date.now())) } : {}),
      empty: "no incidents; coral query summary shows the current health of services",
      after: ({ incidents, open }) => {
        const [first] = incidents;
        if (!first) return;
        if (open === 0) print.note("no incident is open");
        print.note(`next: coral incidents show ${first.id}`);
      },
    },
    isShown ? { id } : {},
  );
}

/** Reads `inc-7` or `show inc-7`. An incident is never named `show`, so both forms are unambiguous. */
function idOf([first, second]: readonly (string | undefined)[]): string | undefined {
  if (first === undefined) return undefined;
  if (first !== "show" && second === undefined) return first;
  if (first === "show" && second !== undefined) return second;
  const message =
    first === "show"
      ? "Cannot show an incident: no id given; coral incidents lists them"
      : `Cannot use "${first}": write coral incidents show <id>`;
  throw new CoralError({ code: "invalid", message });
}

const columns = (nowMs: number): readonly Column<IncidentBrief>[] => [
  { title: "ID", key: "id", cell: ({ id }) => id },
  { title: "STATE", key: "state", cell: ({ state }) => ({ text: state, style: stateStyle(state) }) },
  { title: "SINCE", key: "since", cell: ({ since }) => localTime(since, nowMs), raw: ({ since }) => since },
  valueColumn("LASTED", "durationMs", ({ durationMs }) => durationMs, lasted, { align: "right" }),
  { title: "SERVICE", key: "service", cell: ({ service }) => service },
  valueColumn("SURE", "confidence", ({ confidence }) => confidence, percent, { align: "right" }),
  { title: "CAUSE", key: "cause", cell: ({ cause }) => cause ?? "none found yet" },
  { title: "SYMPTOM", key: "symptom", cell: ({ symptom }) => symptom, wide: true },
];
