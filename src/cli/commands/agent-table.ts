import type { CommandSpec } from "../command-spec.ts";
import { startOptions, stopOptions } from "./colony-table.ts";
import { dataOutput, watchedOutput } from "./shared-options.ts";

export const agentCommands: readonly CommandSpec[] = [
  {
    name: "start",
    summary: "Start the agent of this host",
    description: "The first start on a new host needs a join token; after that the agent renews its certificate by itself.",
    options: [
      ...startOptions,
      { name: "colony-id", value: "id", description: "The colony to report to", completes: "colonies" },
      { name: "token", value: "token", description: "Join token; CORAL_JOIN_TOKEN keeps it out of the process list" },
    ],
    examples: [
      ["coral agent start", "joins the colony of this CORAL_HOME"],
      ["CORAL_JOIN_TOKEN=coral_join_… coral agent start --daemon", "joins a colony elsewhere"],
      ["coral agent start --config /etc/coral/agent.yaml", "with another config file"],
    ],
    load: () => import("./agent-start.ts"),
  },
  { name: "status", summary: "Show the agent of this host", options: watchedOutput, load: () => import("./agent-status.ts") },
  {
    name: "stop",
    summary: "Stop the agent of this host; returns when it is gone",
    options: stopOptions,
    load: () => import("./agent-stop.ts"),
  },
  {
    name: "list",
    summary: "List the agents of the colony with their health",
    arguments: [{ name: "match", description: "Part of an id or host name", required: false }],
    options: [
      { name: "verbose", short: "v", description: "Also host, labels, certificate and capabilities" },
      { name: "health", value: "state", description: "Only these", choices: ["healthy", "degraded", "unhealthy"] },
      ...watchedOutput,
    ],
    load: () => import("./agent-list.ts"),
  },
  {
    name: "revoke",
    summary: "Refuse an agent's certificates from now on; its stored rows stay",
    arguments: [{ name: "agent", description: "Agent id or host name", required: true, completes: "agents" }],
    options: dataOutput,
    load: () => import("./agent-revoke.ts"),
  },
];
