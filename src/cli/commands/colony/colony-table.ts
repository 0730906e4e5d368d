import type { CommandSpec, OptionSpec } from "../../run/command-spec.ts";
import { dataOutput, listenOptions, watchedOutput } from "../shared-options.ts";

/** Options of daemons that run in the foreground or the background. */
export const startOptions: readonly OptionSpec[] = [
  { name: "daemon", short: "d", description: "Run in the background; returns when it answers" },
  { name: "config", value: "file", description: "Config file instead of the one under CORAL_HOME", completes: "files" },
  ...listenOptions,
];

export const stopOptions: readonly OptionSpec[] = [
  { name: "timeout", value: "duration", description: "How long to wait for the end", default: "30s" },
];

const tokenCommands: readonly CommandSpec[] = [
  {
    name: "create",
    summary: "Make a token; its secret is shown this once",
    options: [
      {
        name: "kind",
        value: "kind",
        description: "join lets agents join, user lets people and assistants call",
        choices: ["join", "user"],
        default: "join",
      },
      {
        name: "permission",
        value: "level",
        description: "What a user token may do",
        choices: ["read", "debug", "exec", "admin"],
        default: "read",
      },
      { name: "ttl", value: "duration", description: "How long it is valid", default: "24h" },
      { name: "uses", value: "n", description: "How often it can be used; default: 1 for join, unlimited for user" },
      { name: "note", value: "text", description: "What it is for, or whose: audits and rules call its user token:<note>" },
      ...dataOutput,
    ],
    examples: [
      ["coral colony token create", "lets one agent join within 24 hours"],
      ["coral colony token create --uses 50 --ttl 1h", "for a roll-out"],
      ["coral colony token create --kind user --ttl 30d --note ci", "read access for a script"],
    ],
    load: () => import("./token-create.ts"),
  },
  { name: "list", summary: "List the tokens, without their secrets", options: watchedOutput, load: () => import("./token-list.ts") },
  {
    name: "revoke",
    summary: "End a token at once",
    arguments: [{ name: "token-id", description: "As coral colony token list shows it", required: true }],
    options: dataOutput,
    load: () => import("./token-revoke.ts"),
  },
];

export const colonyCommands: readonly CommandSpec[] = [
  {
    name: "start",
    summary: "Start a colony",
    options: startOptions,
    examples: [
      ["coral colony start", "in this terminal, until Ctrl-C"],
      ["coral colony start --daemon", "in the background"],
      ["coral colony start --port 3001", "on another port"],
    ],
    load: () => import("./colony-start.ts"),
  },
  {
    name: "status",
    summary: "Show the colony process, its agents and where they run, and what needs attention",
    options: watchedOutput,
    load: () => import("./colony-status.ts"),
  },
  { name: "stop", summary: "Stop a colony; returns when it is gone", options: stopOptions, load: () => import("./colony-stop.ts") },
  { name: "token", summary: "Make, list and revoke tokens", commands: tokenCommands },
];
