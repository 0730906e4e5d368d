/** `coral diagnose` and `coral evidence`. */

import type { CommandSpec } from "../../run/command-spec.ts";
import { toolCommand } from "../../run/tool-command.ts";
import { dataOutput } from "../shared-options.ts";

export const diagnoseCommand: CommandSpec = toolCommand({
  name: "diagnose",
  tool: "coral_diagnose",
  summary: "Find the root cause of slowness or failures, with evidence and the next step",
  description:
    "Compares the time of the trouble with the hour before, over requests, spans, logs, metrics and resources of all services. Uses statistics, no language model. See docs/diagnosis.md.",
  positional: ["question"],
  fields: {
    question: { description: 'A service, or words such as "checkout slow"; default: anything that is unusual' },
    since: { description: "How much to look at when no start of the trouble is found" },
    at: { value: "time", description: "A time when it was bad: 2026-01-02T03:04:05Z, or how long ago: 20m" },
    between: { value: "range", description: "The bad time range: 40m..25m, or two ISO 8601 times" },
    baseline: { value: "range", description: "A normal time range to compare with; default: the hour before" },
  },
  options: dataOutput,
  examples: [
    ["coral diagnose", "what is wrong now, and why"],
    ['coral diagnose "checkout slow"', "one service and one symptom"],
    ["coral diagnose checkout --between 40m..25m", "an incident that is over"],
    ["coral diagnose --json", "for scripts and assistants"],
  ],
  load: () => import("./diagnose.ts"),
});

export const evidenceCommand: CommandSpec = toolCommand({
  name: "evidence",
  tool: "coral_evidence",
  summary: "Show a piece of evidence of a diagnosis: figures, times, and commands that show more",
  positional: ["id"],
  fields: { id: { description: "Id of the evidence, as coral diagnose prints it" } },
  options: dataOutput,
  examples: [["coral evidence ev-1a2b3c4d", "as printed by coral diagnose"]],
  load: () => import("./evidence.ts"),
});
