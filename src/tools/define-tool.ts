/**
 * A tool is an operation of Coral, defined once. From this table come the MCP tools, `coral tool call`, the HTTP API and the docs;
 * the CLI's commands call a tool and print its typed result.
 */

import { z } from "zod";
import { type Completeness, completenessSchema } from "./completeness.ts";

/** What a caller must be allowed to do. Each one includes those before it. */
export const permissions = ["read", "debug", "exec", "admin"] as const;
export type Permission = (typeof permissions)[number];

export interface ToolDefinition<Input extends z.ZodObject, Output extends z.ZodObject, Backend> {
  /** `coral_<verb>_<noun>`. */
  name: string;
  title: string;
  /** One or two sentences for people and language models: what it answers and when to use it. */
  description: string;
  input: Input;
  /** Without `completeness`: defineTool adds it. */
  output: Output;
  permission: Permission;
  /** True when a call changes anything outside Coral's own bookkeeping. */
  changes: boolean;
  handle: (backend: Backend, input: z.infer<Input>, context: ToolCallContext) => Promise<ToolResult<z.infer<Output>>>;
}

export interface ToolCallContext {
  signal: AbortSignal;
}

export interface ToolResult<Output> {
  output: Output;
  completeness: Completeness;
}

/** A tool with its types erased: what transports list and call. */
export interface Tool<Backend> {
  name: string;
  title: string;
  description: string;
  permission: Permission;
  changes: boolean;
  inputJsonSchema: Record<string, unknown>;
  outputJsonSchema: Record<string, unknown>;
  /** Checks the input (CoralError `invalid` names the field), runs the handler, checks the output. */
  call: (backend: Backend, input: unknown, context: ToolCallContext) => Promise<Record<string, unknown>>;
}

export { completenessSchema, z };
