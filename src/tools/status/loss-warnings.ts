/** Warnings about lost rows: one per agent and cause, with the fix for that cause. */

import type { LossFact } from "../contract/backend.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { StatusWarning } from "../schemas/status.ts";

/** Signals named in one warning; the rest are counted. */
const signalsNamed = 3;

type Fix = (hostname: string) => string;

const outOfReach: Fix = () =>
  "Agents prune unpulled rows after their retention: keep the colony reachable, or raise the agent's store limit";
const diskOf: Fix = (hostname) => `Check the disk of ${hostname}, and see the agent's log for the cause`;

/** Fixes by reason. A newer agent may report reasons that are not listed. */
const fixes: Readonly<Record<string, Fix>> = {
  pruned: outOfReach,
  "before-first-pull": outOfReach,
  "disk-full": (hostname) => `Free space on ${hostname}, on the file system of the agent's data directory`,
  "queue-full": (hostname) => `The agent's disk is too slow: give ${hostname} a faster disk, or lengthen the intervals in agent.yaml`,
  "store-error": diskOf,
  "segment-damaged": diskOf,
  "torn-write-ahead": diskOf,
  "epoch-changed": (hostname) => `The agent's store was replaced: unless it was removed on purpose, check the disk of ${hostname}`,
  "colony-damaged": () => "Check the colony's disk; the damaged file is kept beside its store",
};

export function lossWarnings(losses: readonly LossFact[], agents: readonly AgentInfo[]): StatusWarning[] {
  const groups = new Map<string, LossFact[]>();
  for (const loss of losses) {
    const key = `${loss.agentId} ${loss.reason}`;
    groups.set(key, [...(groups.get(key) ?? []), loss]);
  }
  return [...groups.values()].map((group) => warningOf(group, agents));
}

function warningOf(group: readonly LossFact[], agents: readonly AgentInfo[]): StatusWarning {
  const { agentId, reason } = group[0] as LossFact;
  const hostname = agents.find((agent) => agent.agentId === agentId)?.hostname ?? agentId;
  const isKnown = group.every(({ rows }) => rows !== null);
  const rows = group.reduce((total, loss) => total + (loss.rows ?? 0), 0);
  const amount = isKnown ? `${rows} rows` : "an unknown number of rows";
  const from = agentId === "*" ? "all agents" : hostname;
  return {
    kind: "rows-lost",
    message: `${amount} of ${signalsOf(group)} from ${from} are missing: ${reason}`,
    fix: (fixes[reason] ?? diskOf)(hostname),
    ...(agentId === "*" ? {} : { agentId }),
  };
}

function signalsOf(group: readonly LossFact[]): string {
  const signals = [...new Set(group.map(({ signal }) => signal))].sort();
  // `*` means all: a damaged file at the colony loses rows of every agent.
  if (signals.includes("*")) return "all signals";
  const more = signals.length - signalsNamed;
  return `${signals.slice(0, signalsNamed).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
