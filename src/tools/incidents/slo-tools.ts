import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import type { Objective } from "../../model/incident.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { limitInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { cutList } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { objectiveSchema, objectivesSchema } from "../schemas/incident.ts";

const service = z.string().min(1).max(200).describe("name of the service");
const route = z.string().max(500).default("").describe("route such as GET /buy; default: all requests");

export const listObjectives = defineTool({
  name: "coral_slo",
  title: "Objectives",
  description: "List declared service level objectives. Other services are judged against their own baselines, per route.",
  input: z.object({ limit: limitInput(20, 1_000) }),
  output: objectivesSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, { limit }, context) => {
    const { items, notes } = cutList(await backend.objectives(context), limit, "objectives", "raise limit");
    return { output: { objectives: items.map(viewOf) }, completeness: completenessOf(notes) };
  },
});

export const setObjective = defineTool({
  name: "coral_set_slo",
  title: "Set an objective",
  description: "Declare a service level objective for a service or route. It replaces the learnt one; a breach opens an incident.",
  input: z.object({
    service,
    route,
    p95: durationInput({ minMs: 0.01, maxMs: 3_600_000 }).optional().describe("95% of requests must take at most this long: 300ms"),
    errors: z
      .string()
      .regex(/^\d+(?:\.\d+)?%$/, "write a percentage, such as 1% or 0.1%")
      .optional()
      .describe("at most this share of requests may fail: 1%"),
  }),
  output: objectiveSchema,
  permission: "admin",
  changes: false,
  handle: async (backend: ColonyBackend, { p95, errors, ...input }, context) => {
    const errorRatio = errors === undefined ? null : Number(errors.slice(0, -1)) / 100;
    if (p95 === undefined && errorRatio === null)
      throw new CoralError({ code: "invalid", message: `Cannot set an objective of "${input.service}": give p95, errors or both` });
    if (errorRatio !== null && errorRatio >= 1)
      throw new CoralError({ code: "invalid", message: `Cannot set an objective of "${input.service}": errors must be below 100%` });
    const request = { ...input, p95Us: p95 === undefined ? null : p95 * 1_000, errorRatio };
    return { output: viewOf(await backend.setObjective(request, context)), completeness: completenessOf([]) };
  },
});

export const removeObjective = defineTool({
  name: "coral_remove_slo",
  title: "Remove an objective",
  description: "Remove a declared service level objective; the service is judged against its baseline again.",
  input: z.object({ service, route }),
  output: z.object({ removed: z.number() }),
  permission: "admin",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const removed = await backend.removeObjective(input, context);
    if (removed === 0) {
      const what = input.route === "" ? `"${input.service}"` : `"${input.route}" of "${input.service}"`;
      throw new CoralError({
        code: "not-found",
        message: `Cannot remove the objective of ${what}: there is none; coral slo list shows them`,
      });
    }
    return { output: { removed }, completeness: completenessOf([]) };
  },
});

function viewOf({ setMs, ...objective }: Objective) {
  return { ...objective, setAt: new Date(setMs).toISOString() };
}
