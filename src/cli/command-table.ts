/** Every command of coral, in one place. The parser, the help, docs/cli.md and the completions are made from this. */

import { logLevels } from "../base/log.ts";
import { agentCommands } from "./commands/agent/agent-table.ts";
import { approvalCommands, auditCommands } from "./commands/audit/audit-table.ts";
import { colonyCommands } from "./commands/colony/colony-table.ts";
import { configCommands } from "./commands/config/config-table.ts";
import { execCommand, runCommand, shellCommand } from "./commands/exec/exec-table.ts";
import { connectCommand, disconnectCommand, networkCommands } from "./commands/network/network-table.ts";
import { mcpCommands, queryCommands, toolCommands } from "./commands/query/query-table.ts";
import { agentOption, dataOutput, listenOptions, serviceOption, sinceOption, watchedOutput } from "./commands/shared-options.ts";
import type { CommandSpec, OptionSpec } from "./run/command-spec.ts";

export const globalOptions: readonly OptionSpec[] = [
  {
    name: "colony",
    value: "name",
    description: "Context or colony id; default: CORAL_COLONY, else the current context",
    completes: "contexts",
  },
  { name: "quiet", short: "q", description: "Print the answer only, no notes and hints" },
  { name: "no-color", description: "No colours; also with NO_COLOR set or when the output is not a terminal" },
  {
    name: "log-level",
    value: "level",
    description: "Least severe log lines; debug also shows what lies beneath an error",
    choices: logLevels,
  },
];

const start = "Start here";
const look = "Look";
const act = "Act";
const daemons = "Daemons";
const more = "Set-up and help";

export const commandTable: CommandSpec = {
  name: "coral",
  summary: "Why is the application behaving like this? Coral answers with the evidence",
  commands: [
    {
      name: "up",
      group: start,
      summary: "Run a colony and an agent in this terminal and observe this machine",
      description: "Everything listens on loopback only. Ctrl-C ends it; what was stored stays.",
      options: listenOptions,
      examples: [
        ["coral up", "start observing"],
        ["coral up --port 0", "on any free port"],
      ],
      load: () => import("./commands/up.ts"),
    },
    {
      name: "status",
      group: start,
      summary: "Show the colony, its agents, hosts and warnings at a glance",
      options: watchedOutput,
      examples: [
        ["coral status", "the overview"],
        ["coral status --watch", "again every two seconds"],
        ["coral status -o json", "everything, for scripts"],
      ],
      load: () => import("./commands/status.ts"),
    },
    {
      name: "top",
      group: look,
      summary: "Show the busiest services live: rate, errors, latency, CPU",
      description:
        "On a terminal it redraws every two seconds; q ends it, r, e, p and c sort by rate, errors, p95 and CPU. Elsewhere it prints once.",
      options: [
        { name: "sort", value: "what", description: "What comes first", choices: ["rate", "errors", "p95", "cpu"], default: "rate" },
        { name: "once", description: "Print once, also on a terminal" },
        { name: "since", value: "duration", description: "Over how long rates and percentiles are taken", default: "1m" },
        agentOption,
        { name: "limit", value: "n", description: "Most services shown; default: what fits the screen" },
        ...dataOutput,
      ],
      examples: [
        ["coral top", "live"],
        ["coral top --once --sort p95", "the slowest services, once"],
      ],
      load: () => import("./commands/service/top.ts"),
    },
    { name: "query", group: look, summary: "Ask for stored signals", commands: queryCommands },
    {
      name: "capture",
      group: look,
      summary: "Show live requests of a service as they come: path, status, headers, sizes, timings",
      description:
        "Redacted at the agent, which allows only the headers of its config and ends the capture by itself; who captured what is kept as an event and in the audit. Needs the permission debug.",
      arguments: [{ name: "service", description: "Name of the service", required: true, completes: "services" }],
      options: [
        { name: "route", value: "text", description: "Only requests whose route or path holds this text" },
        { name: "status", value: "status", description: "Only answers with this code, class or failure: 404, 5xx, error" },
        { name: "min-duration", value: "duration", description: "Only requests that took this long" },
        { name: "limit", value: "n", description: "End after so many requests", default: "100" },
        { name: "duration", value: "duration", description: "End after this time", default: "30s" },
        { name: "body", description: "With the first bytes of bodies, redacted" },
        agentOption,
        {
          name: "output",
          short: "o",
          value: "format",
          description: "How to print; wide adds headers and timings, json is one object per line",
          choices: ["table", "wide", "json"],
          default: "table",
        },
        { name: "json", description: "The same as -o json" },
      ],
      examples: [
        ["coral capture api", "whatever comes"],
        ["coral capture api --status 5xx -o wide", "failures, with headers"],
        ["coral capture api --route /checkout --min-duration 250ms --duration 5m", "the slow ones of one route"],
        ["coral events --kind capture-started", "who captured what"],
      ],
      load: () => import("./commands/service/capture.ts"),
    },
    {
      name: "services",
      group: look,
      summary: "List the services of all hosts, or show one in full",
      description: "One in full: its processes with build and health, who calls it, whom it calls, and what happened to it.",
      arguments: [
        { name: "name", description: "A service, or part of a name to list those that hold it", required: false, completes: "services" },
      ],
      options: [
        agentOption,
        { name: "since", value: "duration", description: "How far back calls are looked at, for one service", default: "1h" },
        ...watchedOutput,
      ],
      examples: [
        ["coral services", "all, one line each"],
        ["coral services api", "one in full"],
        ["coral services --agent web-1 -o wide", "of one host, with builds and executables"],
      ],
      load: () => import("./commands/service/services.ts"),
    },
    {
      name: "events",
      group: look,
      summary: "List what happened: services restarted, updated or unhealthy, new calls to and from outside, agents, losses",
      options: [
        sinceOption("1h"),
        serviceOption,
        agentOption,
        { name: "kind", value: "kind", description: "Only of this kind, such as service-restarted or egress-new" },
        { name: "limit", value: "n", description: "Most events shown", default: "50" },
        ...watchedOutput,
      ],
      load: () => import("./commands/service/events.ts"),
    },
    {
      name: "deploy",
      group: look,
      summary: "Tell of deployments that cannot be seen",
      commands: [
        {
          name: "mark",
          summary: "Mark a deployment: a configuration, a flag, a build without a version",
          description:
            "Deployments are noticed without it when a process starts with another binary or version. A mark about the same time joins what was noticed. Needs the permission debug.",
          arguments: [{ name: "service", description: "Name of the service", required: true, completes: "services" }],
          options: [
            { name: "version", value: "text", description: "Version that was deployed" },
            { name: "note", value: "text", description: "What was changed" },
            { name: "ago", value: "duration", description: "How long ago it was" },
            ...dataOutput,
          ],
          examples: [["coral deploy mark api --version 1.4.2 --note 'new cache'", "now"]],
          load: () => import("./commands/service/deploy-mark.ts"),
        },
      ],
    },
    {
      name: "network",
      group: look,
      summary: "Show services and connections: who calls whom, and what is outside",
      commands: networkCommands,
    },
    { ...execCommand, group: act },
    { ...shellCommand, group: act },
    { ...runCommand, group: act },
    { name: "audit", group: look, summary: "Show who did what, check that it is whole, replay terminals", commands: auditCommands },
    { name: "approval", group: look, summary: "Decide about commands that a rule holds back", commands: approvalCommands },
    { ...connectCommand, group: look },
    { ...disconnectCommand, group: look },
    { name: "tool", group: look, summary: "List and call the operations behind every command", commands: toolCommands },
    { name: "mcp", group: look, summary: "Give an AI assistant access to a colony", commands: mcpCommands },
    {
      name: "init",
      group: daemons,
      summary: "Make a colony: its directory, id and certificate authority",
      arguments: [{ name: "app", description: "Name of the application, such as shop", required: true }],
      options: [{ name: "env", value: "name", description: "Environment, such as dev, staging or prod", default: "dev" }],
      examples: [["coral init shop --env prod", "makes the colony shop-prod-…"]],
      load: () => import("./commands/colony/init.ts"),
    },
    { name: "colony", group: daemons, summary: "Run and look after a colony", commands: colonyCommands },
    { name: "agent", group: daemons, summary: "Run and look after agents", commands: agentCommands },
    { name: "config", group: more, summary: "Show, check and change the configuration", commands: configCommands },
    {
      name: "doctor",
      group: more,
      summary: "Say what this host can and cannot do, why, and how to change it",
      options: watchedOutput.filter((option) => option.name !== "watch"),
      load: () => import("./commands/doctor.ts"),
    },
    {
      name: "completion",
      group: more,
      summary: "Print the completion script of a shell",
      arguments: [{ name: "shell", description: "bash, zsh or fish", required: true, choices: ["bash", "zsh", "fish"] }],
      examples: [
        ["source <(coral completion bash)", "in this shell"],
        ["coral completion zsh > ~/.zfunc/_coral", "for zsh, with ~/.zfunc in fpath"],
        ["coral completion fish > ~/.config/fish/completions/coral.fish", "for fish"],
      ],
      load: () => import("./commands/completion.ts"),
    },
    {
      name: "version",
      group: more,
      summary: "Print the version",
      options: watchedOutput.filter((option) => option.name !== "watch"),
      load: () => import("./commands/version.ts"),
    },
    {
      name: "__complete",
      summary: "Print names for shell completion",
      hidden: true,
      arguments: [{ name: "kind", description: "contexts, colonies, agents or tools", required: true }],
      load: () => import("./commands/complete-names.ts"),
    },
  ],
};
