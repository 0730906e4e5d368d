import type { CommandSpec } from "../../run/command-spec.ts";
import { startOptions, stopOptions } from "../colony/colony-table.ts";
import { dataOutput, watchedOutput } from "../shared-options.ts";

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
    summary: "List the agents of the colony with their health, and where they run",
    arguments: [{ name: "match", description: "Part of an id or host name", required: false }],
    options: [
      { name: "verbose", short: "v", description: "A frame for each with platform, runtime, capabilities with reasons, visibility" },
      { name: "health", value: "state", description: "Only these", choices: ["healthy", "degraded", "unhealthy"] },
      {
        name: "runtime",
        value: "type",
        description: "Only agents that run like this",
        choices: ["native", "docker", "k8s-sidecar", "k8s-daemonset", "unknown"],
      },
      {
        name: "mode",
        value: "mode",
        description: "Only sidecars in this mode, or containers in the host's namespaces",
        choices: ["cri", "shared-ns", "passive", "host-ns"],
      },
      {
        name: "capability",
        value: "name",
        description: "Only agents that can do this",
        choices: ["connect", "exec", "shell", "run", "ebpf", "profile", "debug", "capture", "mesh"],
      },
      ...watchedOutput,
    ],
    examples: [
      ["coral agent list --runtime k8s-sidecar --mode passive", "sidecars that can run nothing"],
      ["coral agent list --capability shell", "where coral shell works"],
      ["coral agent list api-002 --verbose", "one of them, with reasons and fixes"],
    ],
    load: () => import("./agent-list.ts"),
  },
  {
    name: "refresh-context",
    summary: "Let the agent of this host look again where it runs and what it can do",
    description:
      "The agent does so by itself every few minutes; the colony is told when something has changed. Commands that run are not disturbed.",
    options: dataOutput,
    load: () => import("./agent-refresh-context.ts"),
  },
  {
    name: "revoke",
    summary: "Refuse an agent's certificates from now on; its stored rows stay",
    arguments: [{ name: "agent", description: "Agent id or host name", required: true, completes: "agents" }],
    options: dataOutput,
    load: () => import("./agent-revoke.ts"),
  },
];
