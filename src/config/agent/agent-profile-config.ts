/** The `profiles` section of the agent's config: how often processors are sampled, within which CPU budget. */

import type * as z from "zod";
import { duration, flag, integer, percentage, section } from "../schema/schema-parts.ts";

export const agentProfileSection = section({
  enabled: flag("Sample what every processor runs; needs root, or CAP_BPF and CAP_PERFMON").prefault(true),
  hz: integer("Samples per second and processor; not a round number, so that periodic work is sampled fairly", 1, 199).prefault(19),
  interval: duration("How often samples are counted by stack and stored", { min: "5s", max: "5m" }).prefault("30s"),
  max_stacks: integer("Maximum number of distinct stacks per interval; samples of further ones are counted as lost", 100, 50_000).prefault(
    4_000,
  ),
  cpu_budget: percentage(
    "CPU budget as a share of one core, per core of the host, averaged over ten minutes; above it, fewer samples are taken",
    0.0005,
    0.5,
  ).prefault("0.5%"),
});

export interface AgentProfileConfig {
  enabled: boolean;
  hz: number;
  intervalMs: number;
  maxStacks: number;
  /** Share of one core, 0..1, per core of the host. */
  cpuBudgetRatio: number;
}

export function toAgentProfile(file: z.output<typeof agentProfileSection>): AgentProfileConfig {
  return {
    enabled: file.enabled,
    hz: file.hz,
    intervalMs: file.interval,
    maxStacks: file.max_stacks,
    cpuBudgetRatio: file.cpu_budget,
  };
}
