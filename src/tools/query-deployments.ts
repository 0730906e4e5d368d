import * as z from "zod";
import type { ColonyBackend } from "./backend.ts";
import { completenessOf } from "./completeness.ts";
import { defineTool } from "./define-tool.ts";
import { durationInput } from "./duration-input.ts";
import { findSender } from "./find-service.ts";
import { cutList } from "./missing-data.ts";
import { deploymentListSchema } from "./schemas/deployment.ts";

const dayMs = 86_400_000;

export const queryDeployments = defineTool({
  name: "coral_query_deployments",
  title: "Deployments",
  description: "New builds of services, newest first, each compared with the time before by route: verdict and what changed.",
  input: z.object({
    service: z.string().min(1).optional(),
    since: durationInput({ minMs: 60_000, maxMs: 60 * dayMs }).prefault("1d"),
    limit: z.int().min(1).max(200).default(20),
  }),
  output: deploymentListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const ask = (service: string | undefined) =>
      backend.deployments({ sinceMs: input.since, limit: input.limit + 1, ...(service === undefined ? {} : { service }) }, context);
    let deployments = await ask(input.service);
    // None at all may be a name that is written otherwise; one that does not exist is the caller's mistake.
    if (deployments.length === 0 && input.service !== undefined) deployments = await ask(await findSender(backend, input.service, context));
    const { items, notes } = cutList(deployments, input.limit, "or more deployments", "shorten since, name a service, or raise limit");
    return { output: { sinceMs: input.since, deployments: items }, completeness: completenessOf(notes) };
  },
});
