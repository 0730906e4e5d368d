import { realpathSync } from "node:fs";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { type McpClient, mcpClientBlock } from "./mcp-clients.ts";

/** `coral mcp config <client>`: prints the block on stdout, and where to paste it on stderr. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, print, program, io } = invocation;
  const { name } = await connectColony(invocation);
  const block = mcpClientBlock(args[0] as McpClient, {
    // Desktop programs do not inherit the shell's PATH, so node and script need absolute paths.
    command: program.node,
    args: [realpath(program.script), "mcp", "proxy", "--colony", name],
    env: io.env["CORAL_HOME"] ? { CORAL_HOME: io.env["CORAL_HOME"] } : {},
  });
  print.answer(`${block.text}\n`);
  print.note(block.where);
}

/** Resolves links, because a link from npm's bin directory may change with the next installation. */
function realpath(script: string): string {
  try {
    return realpathSync(script);
  } catch {
    // The start path no longer exists: fall back to the name as typed.
    return script;
  }
}
