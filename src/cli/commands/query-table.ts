import type { CommandSpec } from "../command-spec.ts";
import { dataOutput, sinceOption, watchedOutput } from "./shared-options.ts";

export const queryCommands: readonly CommandSpec[] = [
  {
    name: "host",
    summary: "Show the health of hosts: CPU, memory, pressure, disks, network, processes",
    arguments: [{ name: "agent", description: "Agent id or host name; default: the busiest hosts", required: false, completes: "agents" }],
    options: [sinceOption("5m"), { name: "limit", value: "n", description: "Most hosts shown", default: "5" }, ...watchedOutput],
    examples: [
      ["coral query host", "the busiest hosts now"],
      ["coral query host web-1 --since 2h", "one host over two hours"],
      ["coral query host web-1 --watch", "live"],
    ],
    load: () => import("./query-host.ts"),
  },
  {
    name: "sql",
    summary: "Run a read-only SQL query over the stored signals",
    description: "SHOW TABLES lists the views, DESCRIBE <view> its columns.",
    arguments: [{ name: "statement", description: "One SELECT; - or nothing reads it from stdin", required: false }],
    options: [
      { name: "max-rows", value: "n", description: "Most rows returned", default: "200" },
      { name: "timeout", value: "duration", description: "Longest run", default: "10s" },
      ...watchedOutput,
    ],
    examples: [
      ['coral query sql "SHOW TABLES"', "what there is"],
      ['coral query sql "SELECT time, cpu_busy_ratio FROM host ORDER BY time DESC LIMIT 20"', "the newest samples"],
      ["coral query sql - -o csv < report.sql > report.csv", "for a spreadsheet"],
    ],
    load: () => import("./query-sql.ts"),
  },
];

export const toolCommands: readonly CommandSpec[] = [
  { name: "list", summary: "List the tools", options: dataOutput, load: () => import("./tool-list.ts") },
  {
    name: "call",
    summary: "Call a tool and print its answer as JSON",
    arguments: [
      { name: "name", description: "As coral tool list shows it", required: true, completes: "tools" },
      { name: "input", description: "JSON object; - reads it from stdin; default {}", required: false },
    ],
    options: dataOutput.map((option) => (option.name === "output" ? { ...option, choices: ["json", "yaml"], default: "json" } : option)),
    examples: [['coral tool call coral_query_host \'{"since":"1h"}\'', "the same as coral query host --since 1h -o json"]],
    load: () => import("./tool-call.ts"),
  },
];

export const mcpCommands: readonly CommandSpec[] = [
  {
    name: "proxy",
    summary: "Speak MCP on stdin and stdout, for an assistant that starts this command",
    options: [{ name: "allow-changes", description: "Offer also the tools that change something" }],
    load: () => import("./mcp-proxy.ts"),
  },
  {
    name: "config",
    summary: "Print the block to paste into an assistant's settings",
    arguments: [
      {
        name: "client",
        description: "The assistant",
        required: true,
        choices: ["claude-desktop", "claude-code", "cursor", "vscode", "codex"],
      },
    ],
    load: () => import("./mcp-config.ts"),
  },
];
