import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import { activeAgents } from "../contract/match-agents.ts";
import type { ServiceSummary } from "../schemas/summary.ts";
import { summarizeServices } from "./summarize-services.ts";

const dayMs = 86_400_000;
/** The window of the health verdicts, whose cached facts are reused. */
const periodMs = 300_000;

/** All services as `coral query summary` ranks them, without details. */
export async function readHealth(
  backend: Pick<ColonyBackend, "agents" | "deployments" | "summary">,
  context: ToolCallContext,
): Promise<ServiceSummary[]> {
  const [agents, facts, deployments] = await Promise.all([
    backend.agents(context),
    backend.summary({ sinceMs: periodMs }, context),
    backend.deployments({ sinceMs: dayMs, limit: 1_000 }, context),
  ]);
  return summarizeServices({ facts, deployments, agents: activeAgents(agents), nowMs: facts.nowMs }).map(({ summary }) => summary);
}
