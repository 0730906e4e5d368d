/** `coral incidents`, `coral verify`, `coral whatif` and `coral slo`. */

import type { CommandSpec } from "../../run/command-spec.ts";
import { toolCommand } from "../../run/tool-command.ts";
import { dataOutput, watchedOutput } from "../shared-options.ts";

const incidentsOfTool = toolCommand({
  name: "incidents",
  tool: "coral_incidents",
  summary: "List incidents with their cause, open ones first, or show one",
  description:
    "The colony watches services that are called from outside. It opens and diagnoses an incident when one is slower or fails more than usual, or breaches its objective. See docs/incidents.md.",
  positional: ["id"],
  fields: {
    id: { description: "Id of the incident to show, inc-7 or 7" },
    since: { description: "How far back closed incidents are listed" },
    limit: { description: "Maximum number of incidents" },
    state: { description: "Only incidents in this state" },
  },
  options: watchedOutput,
  examples: [
    ["coral incidents", "open incidents, and those of the last 7 days"],
    ["coral incidents show inc-7", "one incident on one screen"],
    ["coral incidents --state open -o json", "for scripts"],
  ],
  load: () => import("./incidents.ts"),
});

/** `coral incidents show inc-7` is the same as `coral incidents inc-7`. */
export const incidentsCommand: CommandSpec = {
  ...incidentsOfTool,
  arguments: [{ name: "show", description: "Optional word before the id", required: false }, ...(incidentsOfTool.arguments ?? [])],
};

export const verifyCommand: CommandSpec = toolCommand({
  name: "verify",
  tool: "coral_verify",
  summary: "Check after a fix whether an incident is resolved, improved, unchanged or worse",
  description: "Compares the indicators before, during and after. Exit code 0 when resolved, 1 otherwise.",
  positional: ["incident"],
  fields: {
    incident: { description: "Id of the incident, inc-7 or 7" },
    fixed: {
      value: "duration",
      description: "How long ago it was fixed; default: the last deployment or restart since, else when it was last bad",
    },
  },
  options: dataOutput,
  examples: [
    ["coral verify inc-7", "after a deployment or restart that Coral saw"],
    ["coral verify inc-7 --fixed 5m", "after a change that Coral cannot see"],
  ],
  load: () => import("./verify.ts"),
});

export const whatIfCommand: CommandSpec = toolCommand({
  name: "whatif",
  tool: "coral_whatif",
  summary: "Show which services are affected if a service is down or slow, from observed calls",
  positional: ["service", "event"],
  fields: {
    service: { description: "Name of the service" },
    event: { description: "What happens to it" },
    since: { description: "How far back to look for calls" },
  },
  options: dataOutput,
  examples: [["coral whatif postgres down", "callers, shares of their requests, entry routes at risk"]],
  load: () => import("./whatif.ts"),
});

export const sloCommands: readonly CommandSpec[] = [
  toolCommand({
    name: "set",
    tool: "coral_set_slo",
    summary: "Declare an objective for a service or route; a breach opens an incident",
    description: "Replaces an earlier objective, and the one that Coral learnt. Needs the permission admin.",
    positional: ["service"],
    fields: {
      service: { description: "Name of the service", completes: "services" },
      route: { description: "Route, such as 'GET /buy'; default: all requests of the service together" },
      p95: { value: "duration", description: "95% of requests must take at most this long, such as 300ms" },
      errors: { value: "percent", description: "At most this share of requests may fail, such as 1%" },
    },
    options: dataOutput,
    examples: [
      ["coral slo set checkout --p95 300ms --errors 1%", "for the whole service"],
      ["coral slo set checkout --route 'POST /pay' --p95 2s", "for one route"],
    ],
    load: async () => ({ run: (await import("./slo.ts")).setObjective }),
  }),
  toolCommand({
    name: "list",
    tool: "coral_slo",
    summary: "List declared objectives",
    fields: { limit: { description: "Maximum number of objectives" } },
    options: dataOutput,
    examples: [["coral slo list", "all objectives"]],
    load: async () => ({ run: (await import("./slo.ts")).listObjectives }),
  }),
  toolCommand({
    name: "remove",
    tool: "coral_remove_slo",
    summary: "Remove a declared objective; the service is judged against its baseline again",
    description: "Needs the permission admin.",
    positional: ["service"],
    fields: {
      service: { description: "Name of the service", completes: "services" },
      route: { description: "Route of the objective; default: the objective of the whole service" },
    },
    options: dataOutput,
    examples: [["coral slo remove checkout --route 'POST /pay'", "as listed by coral slo list"]],
    load: async () => ({ run: (await import("./slo.ts")).removeObjective }),
  }),
];
