import { realpathSync } from "node:fs";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { type McpClient, mcpClientBlock } from "./mcp-clients.ts";

/** `coral mcp config <client>`: the block on stdout, where it belongs on stderr. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, print, program, io } = invocation;
  const { name } = await connectColony(invocation);
  const block = mcpClientBlock(args[0] as McpClient, {
    // Desktop programs have a PATH of their own, so node and script are named in full.
    command: program.node,
    args: [realpath(program.script), "mcp", "proxy", "--colony", name],
    env: io.env["CORAL_HOME"] ? { CORAL_HOME: io.env["CORAL_HOME"] } : {},
  });
  print.answer(`${block.text}\n`);
  print.note(block.where);
}

function realpath(script: string): string {
  try {
    return realpathSync(script);
  } catch {
    // The path it was started from no longer exists: fall back to the name as typed.
    return script;
  }
}
