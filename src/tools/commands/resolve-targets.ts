import * as z from "zod";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { commandKindSchema, resolvedTargetsSchema, type TargetSelector } from "../schemas/command.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { resolveTargets } from "./command-targets.ts";

/** The selector fields that every command shares. */
export const targetFields = {
  agents: z.array(z.string().min(1)).min(1).max(1_000).optional().describe("ids or host names"),
  service: z.string().min(1).optional().describe("agents where it runs"),
  labels: z.record(z.string(), z.string()).optional(),
  environment: z.string().min(1).optional(),
  all: z.boolean().optional(),
};

/** Without the fields that the schema filled with `undefined`. */
export function selectorOf(input: { [Name in keyof TargetSelector]?: TargetSelector[Name] | undefined }): TargetSelector {
  const { agents, service, labels, environment, all } = input;
  return Object.fromEntries(Object.entries({ agents, service, labels, environment, all }).filter(([, value]) => value !== undefined));
}

export const resolveTargetsTool = defineTool({
  name: "coral_resolve_targets",
  title: "Resolve targets",
  description: "Show which agents a command (exec, shell, run) would reach, and why others are skipped, with the fix. Runs nothing.",
  input: z.object({ command: commandKindSchema.default("exec"), ...targetFields }),
  output: resolvedTargetsSchema,
  permission: "exec",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => ({
    output: await resolveTargets(backend, input.command, selectorOf(input), context),
    completeness: completenessOf([]),
  }),
});
