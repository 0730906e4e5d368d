/** `coral network`: discovered services and the connections between them. */

import type { CommandSpec } from "../../run/command-spec.ts";
import { toolCommand } from "../../run/tool-command.ts";
import { dataOutput, graphOutput, watchedOutput } from "../shared-options.ts";

export const networkCommands: readonly CommandSpec[] = [
  toolCommand({
    name: "services",
    tool: "coral_list_services",
    summary: "List every service, discovered or managed, with its agent and port",
    omit: ["match", "status", "processes", "limit"],
    fields: {
      method: { value: "method" },
      class: {
        value: "class",
        description: "Only services with external callers, with external callees, or with neither",
        choices: ["ingress", "egress", "internal"],
      },
    },
    options: [
      { name: "discovered", description: "Only services that agents discovered" },
      { name: "managed", description: "Only services managed with coral connect" },
      ...graphOutput,
    ],
    examples: [
      ["coral network services", "everything"],
      ["coral network services --discovered --agent web-1", "discovered on one host"],
      ["coral network services --class ingress", "services with external callers"],
      ["coral network services -o csv > services.csv", "for a spreadsheet"],
    ],
    load: () => import("./network-services.ts"),
  }),
  toolCommand({
    name: "ingress",
    tool: "coral_get_ingress",
    summary: "List external callers of each service",
    omit: ["limit"],
    options: watchedOutput,
    examples: [["coral network ingress --service api", "who calls api from outside"]],
    load: async () => ({ run: (await import("./network-endpoints.ts")).ingress }),
  }),
  toolCommand({
    name: "egress",
    tool: "coral_get_egress",
    summary: "List external addresses that each service calls",
    omit: ["limit"],
    options: watchedOutput,
    examples: [
      ["coral network egress", "all external dependencies"],
      ["coral network egress -o wide", "with provider, rates, bytes and the first build that called it"],
    ],
    load: async () => ({ run: (await import("./network-endpoints.ts")).egress }),
  }),
  toolCommand({
    name: "topology",
    tool: "coral_get_topology",
    summary: "Draw the service graph: who calls whom, with request rate, errors and p95",
    omit: ["limit", "edges"],
    fields: {
      // The schema has upper-case values; the CLI accepts lower case.
      class: { value: "class", choices: ["ingress", "internal", "egress"] },
    },
    options: graphOutput,
    examples: [
      ["coral network topology", "everything"],
      ["coral network topology --service s3 --direction dependents", "what breaks if S3 goes down"],
      ["coral network topology -o dot | dot -Tsvg > topology.svg", "as a picture"],
    ],
    load: () => import("./network-topology.ts"),
  }),
  {
    name: "ranges",
    summary: "Manage the address ranges of cloud and CDN providers, which name external addresses",
    commands: [
      {
        name: "update",
        summary: "Download the ranges that providers publish, or import files",
        description: "Checks each list before it replaces the one in use; the colony loads it within half a minute.",
        options: [
          {
            name: "file",
            value: "file",
            repeats: true,
            description: "Import these files instead of downloading: the published JSON, or plain text with one range per line",
            completes: "files",
          },
          {
            name: "provider",
            value: "provider",
            repeats: true,
            description: "Download only the lists of these providers",
            choices: ["aws", "google-cloud", "google", "azure", "cloudflare", "fastly"],
          },
          ...dataOutput,
        ],
        examples: [
          ["coral network ranges update", "all lists, from the internet"],
          ["coral network ranges update --file ip-ranges.json --file cloud.json", "on a host without internet"],
        ],
        load: () => import("./network-ranges-update.ts"),
      },
      {
        name: "list",
        summary: "List the ranges in use: provider, count, age",
        options: dataOutput,
        load: () => import("./network-ranges-list.ts"),
      },
    ],
  },
];
