import type { CommandSpec, OptionSpec } from "../../run/command-spec.ts";
import { graphFormats } from "../../run/output-format.ts";
import { agentOption, dataOutput, serviceOption, sinceOption, watchedOutput } from "../shared-options.ts";

const graphOutput: readonly OptionSpec[] = watchedOutput.map((option) =>
  option.name === "output" ? { ...option, choices: graphFormats, description: "How to print; dot is a graph for GraphViz" } : option,
);

const coralOption: OptionSpec = { name: "coral", description: "With the traffic of Coral itself" };

export const networkCommands: readonly CommandSpec[] = [
  {
    name: "services",
    summary: "List every service, found or connected, with its agent and port",
    options: [
      { name: "discovered", description: "Only those that agents found by themselves" },
      { name: "managed", description: "Only those that were connected or promoted" },
      agentOption,
      serviceOption,
      {
        name: "method",
        value: "method",
        description: "Only those found this way",
        choices: ["manual", "listening_socket", "connection_tracking", "traffic_inspection", "kubernetes_api"],
      },
      {
        name: "class",
        value: "class",
        description: "Only those called from outside, calling outside, or neither",
        choices: ["ingress", "egress", "internal"],
      },
      { name: "since", value: "duration", description: "Only those seen within: 5m, 2h, 7d" },
      ...graphOutput,
    ],
    examples: [
      ["coral network services", "everything"],
      ["coral network services --discovered --agent web-1", "what was found on one host"],
      ["coral network services --class ingress", "what is open to the outside"],
      ["coral network services -o csv > services.csv", "for a spreadsheet"],
    ],
    load: () => import("./network-services.ts"),
  },
  {
    name: "ingress",
    summary: "List who outside calls which service",
    options: [agentOption, serviceOption, sinceOption("24h"), coralOption, ...watchedOutput],
    examples: [["coral network ingress --service api", "who calls api from outside"]],
    load: () => import("./network-ingress.ts"),
  },
  {
    name: "egress",
    summary: "List which service calls which address outside",
    options: [agentOption, serviceOption, sinceOption("24h"), coralOption, ...watchedOutput],
    examples: [
      ["coral network egress", "all dependencies outside"],
      ["coral network egress -o wide", "with provider, rates, bytes and the build that first called"],
    ],
    load: () => import("./network-egress.ts"),
  },
  {
    name: "topology",
    summary: "Draw who calls whom, with what is outside",
    options: [
      { name: "service", value: "name", description: "Only around this service or something outside, such as s3", completes: "services" },
      {
        name: "direction",
        value: "direction",
        description: "What it needs (dependencies), what breaks with it (dependents)",
        choices: ["dependencies", "dependents", "both"],
        default: "both",
      },
      { name: "depth", value: "n", description: "Most hops from the service", default: "10" },
      agentOption,
      { name: "class", value: "class", description: "Only these connections", choices: ["ingress", "internal", "egress"] },
      sinceOption("1h"),
      coralOption,
      ...graphOutput,
    ],
    examples: [
      ["coral network topology", "everything"],
      ["coral network topology --service s3 --direction dependents", "what breaks if S3 goes down"],
      ["coral network topology -o dot | dot -Tsvg > topology.svg", "as a picture"],
    ],
    load: () => import("./network-topology.ts"),
  },
  {
    name: "ranges",
    summary: "Keep the address ranges of cloud and CDN providers, by which addresses outside get their names",
    commands: [
      {
        name: "update",
        summary: "Download the lists that providers publish, or take files",
        description: "Each list is checked before it replaces the one in use; the colony notices within half a minute.",
        options: [
          {
            name: "file",
            value: "file",
            repeats: true,
            description: "Take these instead of downloading: the published JSON, or plain text with one range per line",
            completes: "files",
          },
          {
            name: "provider",
            value: "provider",
            repeats: true,
            description: "Download only these",
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
        summary: "List the ranges in use: provider, number, age",
        options: dataOutput,
        load: () => import("./network-ranges-list.ts"),
      },
    ],
  },
];

export const connectCommand: CommandSpec = {
  name: "connect",
  summary: "Name services of this host and check their health from now on",
  description:
    "A service is written name:port[:health][:type]. What the agent had found by itself on that port is promoted; the name given here beats every other. Kept over restarts of the agent.",
  arguments: [{ name: "service", description: "name:port[:health][:type], such as api:8080:/health:http", required: true, variadic: true }],
  options: [
    { name: "port", value: "port", description: "Port, when the argument is a name alone" },
    { name: "health", value: "path", description: "Path that answers 2xx or 3xx while the service is well, with --port" },
    { name: "type", value: "type", description: "A word such as http, https, postgres, with --port" },
    ...dataOutput,
  ],
  examples: [
    ["coral connect postgres:5432", "checked by connecting"],
    ["coral connect api:8080:/health:http web:3000 redis:6379", "several at once"],
    ["coral connect frontend --port 3000 --health /health", "the long form"],
  ],
  load: () => import("../service/connect.ts"),
};

export const disconnectCommand: CommandSpec = {
  name: "disconnect",
  summary: "Stop managing services of this host; they stay known as discovered ones",
  arguments: [{ name: "service", description: "Name", required: true, variadic: true, completes: "managed-services" }],
  options: dataOutput,
  examples: [["coral disconnect postgres redis", "two at once"]],
  load: () => import("../service/disconnect.ts"),
};
