/** Config blocks with which each assistant starts `coral mcp proxy`. */

import { shellWord } from "../../../base/escape-text.ts";

export type McpClient = "claude-desktop" | "claude-code" | "cursor" | "vscode" | "codex";

/** The process that the assistant starts. */
export interface McpCommand {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
}

export interface McpClientBlock {
  text: string;
  /** Where to paste the block. */
  where: string;
}

/** Claude Desktop and Cursor read `mcpServers`, VS Code reads `servers` with a type, Codex reads TOML, Claude Code has a command. */
export function mcpClientBlock(client: McpClient, command: McpCommand): McpClientBlock {
  switch (client) {
    case "claude-desktop":
      return {
        text: json({ mcpServers: { coral: stdio(command) } }),
        where:
          "paste into claude_desktop_config.json (macOS: ~/Library/Application Support/Claude, Linux: ~/.config/Claude, Windows: %APPDATA%\\Claude) and restart Claude Desktop",
      };
    case "cursor":
      return {
        text: json({ mcpServers: { coral: stdio(command) } }),
        where: "paste into ~/.cursor/mcp.json, or .cursor/mcp.json of a project",
      };
    case "vscode":
      return {
        text: json({ servers: { coral: { type: "stdio", ...stdio(command) } } }),
        where: "paste into .vscode/mcp.json of a workspace, or the user's mcp.json (MCP: Open User Configuration)",
      };
    case "claude-code": {
      const environment = Object.entries(command.env).flatMap(([name, value]) => ["--env", `${name}=${value}`]);
      const words = ["claude", "mcp", "add", "coral", ...environment, "--", command.command, ...command.args];
      return {
        text: words.map(shellWord).join(" "),
        where: "run this in a shell; add --scope user after add to enable it in every project",
      };
    }
    case "codex":
      return { text: toml(command), where: "paste into ~/.codex/config.toml" };
  }
}

function stdio({ command, args, env }: McpCommand): Record<string, unknown> {
  return { command, args, ...(Object.keys(env).length === 0 ? {} : { env }) };
}

function json(value: unknown): string {
  return JSON.stringify(value, undefined, 2);
}

/** A JSON string is also a valid TOML basic string. */
function toml({ command, args, env }: McpCommand): string {
  const lines = [
    "[mcp_servers.coral]",
    `command = ${JSON.stringify(command)}`,
    `args = [${args.map((word) => JSON.stringify(word)).join(", ")}]`,
  ];
  const variables = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return [...lines, ...(variables.length === 0 ? [] : ["", "[mcp_servers.coral.env]", ...variables])].join("\n");
}
