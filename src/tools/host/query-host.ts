import * as z from "zod";
import type { HostFacts } from "../../model/host.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput, pointsInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { activeAgents, matchAgents } from "../contract/match-agents.ts";
import { cutList, missingNotes } from "../contract/missing-data.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { type HostReport, hostQueryResultSchema } from "../schemas/host.ts";
import { hostFindings } from "./host-findings.ts";

const dayMs = 86_400_000;
const hostSignals = ["host", "host_cpu", "host_mount", "host_disk", "host_interface", "host_cgroup", "host_process"];

export const queryHost = defineTool({
  name: "coral_query_host",
  title: "Host health",
  description:
    "Show CPU, memory, load, pressure, disks, mounts, network, control groups and top processes of hosts, with findings, worst first. Without agent: the busiest.",
  input: z.object({
    agent: agentInput(),
    since: sinceInput("5m", { maxMs: 90 * dayMs }),
    points: pointsInput(30, 60),
    limit: limitInput(5, 50),
  }),
  output: hostQueryResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const active = activeAgents(await backend.agents(context));
    const matched = input.agent === undefined ? await busiestFirst(backend, active, context) : matchAgents(active, input.agent);
    const shown = cutList(matched, input.limit, "hosts", "name one with agent, or raise limit");
    const agentIds = shown.items.map((agent) => agent.agentId);
    const [facts, missing] = await Promise.all([
      agentIds.length === 0 ? [] : backend.host({ agentIds, sinceMs: input.since, maxPoints: input.points }, context),
      missingNotes(
        backend,
        { agents: shown.items, which: { agentIds }, signals: hostSignals, kept: ["host"], sinceMs: input.since },
        context,
      ),
    ]);
    const factsOf = new Map(facts.map((fact) => [fact.agentId, fact]));
    const hosts = shown.items.flatMap((agent) => {
      const fact = factsOf.get(agent.agentId);
      return fact ? [reportOf(agent, fact)] : [];
    });
    const notes = [...shown.notes, ...missing, ...emptyNotes(shown.items, factsOf)];
    return { output: { sinceMs: input.since, matched: matched.length, hosts }, completeness: completenessOf(notes) };
  },
});

function reportOf(agent: AgentInfo, facts: HostFacts): HostReport {
  const { hostname, health, lastContactAgoMs } = agent;
  return { ...facts, hostname, health, lastContactAgoMs, findings: hostFindings(facts) };
}

/** Sorts by the larger of current CPU and memory use, so that truncation keeps the busiest hosts. */
async function busiestFirst(backend: ColonyBackend, agents: AgentInfo[], context: ToolCallContext): Promise<AgentInfo[]> {
  const now = await backend.hostsNow(context);
  const useOf = new Map(now.map((host) => [host.agentId, Math.max(host.cpuBusyRatio ?? 0, host.memUsedRatio ?? 0)]));
  return [...agents].sort((a, b) => (useOf.get(b.agentId) ?? -1) - (useOf.get(a.agentId) ?? -1));
}

function emptyNotes(agents: AgentInfo[], factsOf: Map<string, HostFacts>): CompletenessNote[] {
  if (agents.length === 0) return [{ kind: "no-data", message: "no agent has joined this colony; start one with coral agent start" }];
  return agents
    .filter((agent) => (factsOf.get(agent.agentId)?.totals.samples ?? 0) === 0)
    .map((agent) => ({ kind: "no-data", agent: agent.agentId, message: `no host sample of ${agent.hostname} is stored in this window` }));
}
