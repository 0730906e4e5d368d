import * as z from "zod";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { deploymentMarkedSchema } from "../schemas/deployment.ts";

export const markDeployment = defineTool({
  name: "coral_mark_deployment",
  title: "Mark a deployment",
  description:
    "Record that a service was deployed, for changes that Coral cannot see: a configuration, a flag, a build without a version. Merges with a deployment detected at about that time.",
  input: z.object({
    service: z.string().min(1).max(200).describe("name of the service"),
    version: z.string().min(1).max(100).optional().describe("deployed version"),
    note: z.string().max(500).default("").describe("what changed"),
    ago: durationInput({ minMs: 0, maxMs: 86_400_000 }).prefault("0s").describe("how long ago it was deployed"),
  }),
  output: deploymentMarkedSchema,
  permission: "debug",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { service, version, note, ago } = input;
    const output = await backend.markDeployment({ service, note, agoMs: ago, ...(version === undefined ? {} : { version }) }, context);
    return { output, completeness: completenessOf([]) };
  },
});
