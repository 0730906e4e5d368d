/**
 * `coral agent`: the agent daemon of this host, and the agents of a colony. `start`, `status`, `stop` and `refresh-context` concern this
 * host's agent and need no colony; `list` and `revoke` ask the colony.
 */

import type { CommandSpec } from "../../run/command-spec.ts";
import { toolCommand } from "../../run/tool-command.ts";
import { dataOutput, startOptions, stopOptions, watchedOutput } from "../shared-options.ts";

export const agentCommands: readonly CommandSpec[] = [
  {
    name: "start",
    summary: "Start the agent of this host",
    description: "The first start on a new host needs a join token; after that the agent renews its certificate itself.",
    options: [
      ...startOptions,
      { name: "colony-id", value: "id", description: "Colony to report to", completes: "colonies" },
      { name: "token", value: "token", description: "Join token; CORAL_JOIN_TOKEN keeps it out of the process list" },
    ],
    examples: [
      ["coral agent start", "joins the colony of this CORAL_HOME"],
      ["CORAL_JOIN_TOKEN=coral_join_… coral agent start --daemon", "joins a colony on another host"],
      ["coral agent start --config /etc/coral/agent.yaml", "with another config file"],
    ],
    load: async () => ({ run: (await import("../daemons.ts")).startAgent }),
  },
  { name: "status", summary: "Show the agent of this host", options: watchedOutput, load: () => import("./agent-status.ts") },
  {
    name: "stop",
    summary: "Stop the agent of this host and wait until it has exited",
    options: stopOptions,
    load: async () => ({ run: (await import("../daemons.ts")).stopAgent }),
  },
  toolCommand({
    name: "list",
    tool: "coral_list_agents",
    summary: "List the agents of the colony with their health and where they run",
    positional: ["match"],
    omit: ["limit"],
    fields: {
      health: { value: "state" },
      runtime: { value: "type" },
      capability: {
        value: "name",
        description: "Only agents that can do this",
        choices: ["connect", "exec", "shell", "run", "ebpf", "profile", "debug", "capture", "mesh"],
      },
      verbose: { short: "v", description: "Print one box per agent with platform, runtime, capabilities and their reasons" },
    },
    options: watchedOutput,
    examples: [
      ["coral agent list --runtime k8s-sidecar --mode passive", "sidecars that cannot run commands"],
      ["coral agent list --capability shell", "agents where coral shell works"],
      ["coral agent list api-002 --verbose", "one agent, with reasons and fixes"],
    ],
    load: () => import("./agent-list.ts"),
  }),
  {
    name: "refresh-context",
    summary: "Detect the runtime and capabilities of this host's agent again",
    description: "The agent does this itself every few minutes and reports changes to the colony. Running commands are not interrupted.",
    options: dataOutput,
    load: () => import("./agent-refresh-context.ts"),
  },
  toolCommand({
    name: "revoke",
    tool: "coral_revoke_agent",
    summary: "Revoke an agent: reject its certificates and keep its stored data",
    positional: ["agent"],
    options: dataOutput,
    load: () => import("./agent-revoke.ts"),
  }),
];
