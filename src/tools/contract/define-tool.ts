/**
 * A tool is an operation of Coral, defined once. MCP, `coral tool call`, the HTTP API and the docs are derived from it;
 * CLI commands call a tool and print its typed result.
 */

import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { type Answer, type Completeness, completenessSchema } from "../schemas/completeness.ts";
import { type InputField, inputFieldsOf } from "./input-fields.ts";
import { describeInputProblems } from "./input-problems.ts";

/** Permissions, weakest first. Each includes those before it. */
export const permissions = ["read", "debug", "exec", "admin"] as const;
export type Permission = (typeof permissions)[number];

/** Whether the permission `held` includes `needed`. */
export function permits(held: Permission, needed: Permission): boolean {
  return permissions.indexOf(held) >= permissions.indexOf(needed);
}

interface ToolDefinition<Name extends string, Input extends z.ZodObject, Output extends z.ZodObject, Backend> {
  /** `coral_<verb>_<noun>` or `coral_<verb>`. */
  name: Name;
  title: string;
  /** One or two sentences for people and language models: what it answers and when to use it. */
  description: string;
  /** Unknown keys are rejected. */
  input: Input;
  /** Without `completeness`, which defineTool adds. */
  output: Output;
  permission: Permission;
  /** True when a call changes anything outside Coral's own records. */
  changes: boolean;
  handle: (backend: Backend, input: z.infer<Input>, context: ToolCallContext) => Promise<ToolResult<z.infer<Output>>>;
}

export interface ToolCallContext {
  signal: AbortSignal;
  /** The caller, for the audit: `local:uid=1000`, `token:abc`. Absent when unknown. */
  caller?: string;
  /** Origin of the call, for the audit: `socket pid=42`, `10.0.0.7:50123`. */
  from?: string;
  /** Transport of the call; default http. */
  through?: "cli" | "mcp" | "http" | "llm";
  /** Id of the conversation with a model that the call belongs to. */
  questionId?: string;
}

export interface ToolResult<Output> {
  output: Output;
  completeness: Completeness;
}

/** What transports list and call. Name and answer are typed for callers that import the tool; a transport takes any `Tool<Backend>`. */
export interface Tool<Backend, Name extends string = string, Output = Record<string, unknown>> {
  name: Name;
  title: string;
  description: string;
  permission: Permission;
  changes: boolean;
  inputJsonSchema: Record<string, unknown>;
  outputJsonSchema: Record<string, unknown>;
  /** Input fields, from which the CLI derives the options of the tool's command. */
  inputFields: Record<string, InputField>;
  /** Checks the input (CoralError `invalid` names the field), runs the handler, checks the output. */
  call: (backend: Backend, input: unknown, context: ToolCallContext) => Promise<Output>;
}

/** JSON schemas are generated on first use, to keep the import of the table cheap. */
export function defineTool<const Name extends string, Input extends z.ZodObject, Output extends z.ZodObject, Backend>(
  definition: ToolDefinition<Name, Input, Output, Backend>,
): Tool<Backend, Name, Answer<z.infer<Output>>> {
  const { name, title, description, permission, changes } = definition;
  if (!/^coral_[a-z]+(_[a-z]+)*$/.test(name))
    throw new Error(`Cannot define tool "${name}": names have the form coral_<verb>_<noun> or coral_<verb>`);
  const inputSchema = definition.input.strict();
  const outputSchema = definition.output.extend({ completeness: completenessSchema });
  let inputJson: Record<string, unknown> | undefined;
  let outputJson: Record<string, unknown> | undefined;
  return {
    name,
    title,
    description,
    permission,
    changes,
    get inputJsonSchema() {
      inputJson ??= jsonSchemaOf(inputSchema, "input");
      return inputJson;
    },
    get outputJsonSchema() {
      outputJson ??= jsonSchemaOf(outputSchema, "output");
      return outputJson;
    },
    get inputFields() {
      return inputFieldsOf(inputSchema, this.inputJsonSchema);
    },
    call: async (backend, input, context) => {
      context.signal.throwIfAborted();
      const checked = inputSchema.safeParse(input ?? {});
      if (!checked.success) throw describeInputProblems(name, checked.error, inputSchema, input);
      const result = await definition.handle(backend, checked.data as z.infer<Input>, context);
      const answer = outputSchema.safeParse({ ...result.output, completeness: result.completeness });
      if (!answer.success) {
        const where = answer.error.issues.slice(0, 3).map((issue) => `${issue.path.join(".")}: ${issue.message}`);
        throw new CoralError({
          code: "internal",
          message: `Cannot answer ${name}: the result does not match its schema (${where.join("; ")})`,
          cause: answer.error,
        });
      }
      return answer.data as Answer<z.infer<Output>>;
    },
  };
}

function jsonSchemaOf(schema: z.ZodType, io: "input" | "output"): Record<string, unknown> {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io }) as Record<string, unknown>;
  return rest;
}
