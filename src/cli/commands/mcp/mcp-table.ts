/** `coral tool` and `coral mcp`: tools by name, for scripts and assistants. */

import type { CommandSpec } from "../../run/command-spec.ts";
import { dataOutput, outputOptions } from "../shared-options.ts";

export const toolCommands: readonly CommandSpec[] = [
  { name: "list", summary: "List the tools", options: dataOutput, load: () => import("./tool-list.ts") },
  {
    name: "call",
    summary: "Call a tool and print its answer as JSON",
    arguments: [
      { name: "name", description: "Name from coral tool list", required: true, completes: "tools" },
      { name: "input", description: "JSON object; - reads it from stdin; default: {}", required: false },
    ],
    options: outputOptions(["json", "yaml"]),
    examples: [['coral tool call coral_query_host \'{"since":"1h"}\'', "same as coral query host --since 1h -o json"]],
    load: () => import("./tool-call.ts"),
  },
];

export const mcpCommands: readonly CommandSpec[] = [
  {
    name: "proxy",
    summary: "Serve MCP on stdin and stdout, for an assistant that starts this command",
    options: [
      { name: "allow-changes", description: "Also offer tools that capture requests and run commands; never those for administrators" },
    ],
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
