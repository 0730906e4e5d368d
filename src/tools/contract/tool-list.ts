/** Lists and finds tools by the caller's permission; shared by all transports. */

import { CoralError } from "../../base/errors.ts";
import { type Permission, permits, type Tool } from "./define-tool.ts";

/** One entry of `GET /v1/tools`. */
export interface ToolListEntry {
  name: string;
  title: string;
  description: string;
  permission: Permission;
  changes: boolean;
  inputSchema: Record<string, unknown>;
  outputSchema: Record<string, unknown>;
}

/** Tools that the caller may call. */
export function listTools<Backend>(tools: readonly Tool<Backend>[], permission: Permission): ToolListEntry[] {
  return tools
    .filter((tool) => permits(permission, tool.permission))
    .map((tool) => ({
      name: tool.name,
      title: tool.title,
      description: tool.description,
      permission: tool.permission,
      changes: tool.changes,
      inputSchema: tool.inputJsonSchema,
      outputSchema: tool.outputJsonSchema,
    }));
}

/** Throws `not-found` for an unknown name and `not-permitted` without the tool's permission. */
export function findTool<Backend>(tools: readonly Tool<Backend>[], name: string, permission: Permission): Tool<Backend> {
  const tool = tools.find((candidate) => candidate.name === name);
  if (!tool) {
    const names = tools.filter((candidate) => permits(permission, candidate.permission)).map((candidate) => candidate.name);
    throw new CoralError({
      code: "not-found",
      message: `Cannot call tool "${name}": unknown tool; available: ${names.join(", ")}`,
    });
  }
  if (!permits(permission, tool.permission)) {
    const details = { needed: tool.permission, held: permission };
    const message = `Cannot call ${name}: it needs the permission "${tool.permission}" and this token has "${permission}"`;
    throw new CoralError({ code: "not-permitted", message, details });
  }
  return tool;
}
