import * as z from "zod";
import type { ColonyBackend } from "../contract/backend.ts";
import { limitInput, serviceInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { activeAgents } from "../contract/match-agents.ts";
import { cutList, missingNotes } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { deploymentListSchema } from "../schemas/deployment.ts";
import { findSender } from "../services/find-service.ts";

const dayMs = 86_400_000;

export const queryDeployments = defineTool({
  name: "coral_query_deployments",
  title: "Deployments",
  description: "List new builds of services, newest first, each compared by route with the time before: verdict and what changed.",
  input: z.object({
    service: serviceInput(),
    since: sinceInput("1d", { minMs: 60_000, maxMs: 60 * dayMs }),
    limit: limitInput(20, 200),
  }),
  output: deploymentListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const ask = (service: string | undefined) =>
      backend.deployments({ sinceMs: input.since, limit: input.limit + 1, ...(service === undefined ? {} : { service }) }, context);
    let deployments = await ask(input.service);
    // No rows: the name may differ in case. An unknown name is an error.
    if (deployments.length === 0 && input.service !== undefined) deployments = await ask(await findSender(backend, input.service, context));
    const { items, notes } = cutList(deployments, input.limit, "or more deployments", "shorten since, name a service, or raise limit");
    const agents = activeAgents(await backend.agents(context));
    const missing = await missingNotes(backend, { agents, signals: ["service_instance"], kept: [], sinceMs: input.since }, context);
    return { output: { sinceMs: input.since, deployments: items }, completeness: completenessOf([...notes, ...missing]) };
  },
});
