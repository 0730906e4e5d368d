/**
 * Every command of coral: the source of the parser, the help, docs/cli.md and the shell completions. `load` imports a command's code only
 * when it is called, so that `coral version` stays fast.
 */

import { logLevels } from "../base/log.ts";
import { agentCommands } from "./commands/agent/agent-table.ts";
import { approvalCommands, auditCommands } from "./commands/audit/audit-table.ts";
import { colonyCommands } from "./commands/colony/colony-table.ts";
import { configCommands } from "./commands/config/config-table.ts";
import { diagnoseCommand, evidenceCommand } from "./commands/diagnosis/diagnosis-table.ts";
import { execCommand, runCommand, shellCommand } from "./commands/exec/exec-table.ts";
import { incidentsCommand, sloCommands, verifyCommand, whatIfCommand } from "./commands/incident/incident-table.ts";
import { mcpCommands, toolCommands } from "./commands/mcp/mcp-table.ts";
import { networkCommands } from "./commands/network/network-table.ts";
import { queryCommands } from "./commands/query/query-table.ts";
import {
  captureCommand,
  connectCommand,
  deployCommands,
  disconnectCommand,
  eventsCommand,
  servicesCommand,
  topCommand,
} from "./commands/service/service-table.ts";
import { dataOutput, listenOptions, watchedOutput } from "./commands/shared-options.ts";
import type { CommandSpec, OptionSpec } from "./run/command-spec.ts";

export const globalOptions: readonly OptionSpec[] = [
  {
    name: "colony",
    value: "name",
    description: "Context or colony id; default: CORAL_COLONY, else the current context",
    completes: "contexts",
  },
  { name: "quiet", short: "q", description: "Print only the answer, without notes and hints" },
  { name: "no-color", description: "Disable colours; also off with NO_COLOR or when the output is not a terminal" },
  {
    name: "log-level",
    value: "level",
    description: "Minimum level of log lines; debug also shows the causes of an error",
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
  summary: "Find out why a running system is slow or broken, with evidence",
  commands: [
    {
      name: "up",
      group: start,
      summary: "Run a colony and an agent in this terminal and observe this machine",
      description: "Listens on loopback only. Ctrl-C stops it; stored data is kept.",
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
      summary: "Show the colony, its agents and hosts, and what needs attention",
      options: watchedOutput,
      examples: [
        ["coral status", "the overview"],
        ["coral status --watch", "refreshed every two seconds"],
        ["coral status -o json", "everything, for scripts"],
      ],
      load: () => import("./commands/status.ts"),
    },
    { ...diagnoseCommand, group: look },
    { ...evidenceCommand, group: look },
    { ...incidentsCommand, group: look },
    { ...verifyCommand, group: look },
    { ...whatIfCommand, group: look },
    { name: "slo", group: look, summary: "Declare service level objectives; a breach opens an incident", commands: sloCommands },
    { ...topCommand, group: look },
    { name: "query", group: look, summary: "Query stored signals", commands: queryCommands },
    { ...captureCommand, group: look },
    { ...servicesCommand, group: look },
    { ...eventsCommand, group: look },
    { name: "deploy", group: look, summary: "Report deployments that Coral cannot detect", commands: deployCommands },
    {
      name: "network",
      group: look,
      summary: "Show services and their internal and external connections",
      commands: networkCommands,
    },
    { ...execCommand, group: act },
    { ...shellCommand, group: act },
    { ...runCommand, group: act },
    { name: "audit", group: look, summary: "List who did what, verify the audit, replay terminal sessions", commands: auditCommands },
    { name: "approval", group: look, summary: "Approve or deny commands that wait for approval", commands: approvalCommands },
    { ...connectCommand, group: look },
    { ...disconnectCommand, group: look },
    { name: "tool", group: look, summary: "List and call the tools behind every command", commands: toolCommands },
    { name: "mcp", group: look, summary: "Give an AI assistant access to a colony", commands: mcpCommands },
    {
      name: "init",
      group: daemons,
      summary: "Create a colony: its directory, id and certificate authority",
      arguments: [{ name: "app", description: "Name of the application, such as shop", required: true }],
      options: [{ name: "env", value: "name", description: "Environment, such as dev, staging or prod", default: "dev" }],
      examples: [["coral init shop --env prod", "creates the colony shop-prod-…"]],
      load: () => import("./commands/colony/init.ts"),
    },
    { name: "colony", group: daemons, summary: "Run and manage a colony", commands: colonyCommands },
    { name: "agent", group: daemons, summary: "Run and manage agents", commands: agentCommands },
    { name: "config", group: more, summary: "Show, validate and change the configuration", commands: configCommands },
    {
      name: "doctor",
      group: more,
      summary: "Check what this host supports, with a fix for each gap",
      options: dataOutput,
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
      options: dataOutput,
      load: () => import("./commands/version.ts"),
    },
    {
      name: "__complete",
      summary: "Print names for shell completion",
      hidden: true,
      arguments: [{ name: "kind", description: "Kind of names: contexts, colonies, agents, services or tools", required: true }],
      load: () => import("./commands/complete-names.ts"),
    },
  ],
};
