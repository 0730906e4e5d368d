/** Warnings of `coral status`, each with its fix. */

import { formatBitRate, formatBytes, formatDurationMs } from "../../base/units.ts";
import { runtimeWarnings } from "../agents/runtime-warnings.ts";
import type { ColonyFacts, LossFact } from "../contract/backend.ts";
import { activeAgents } from "../contract/match-agents.ts";
import { isSilent } from "../contract/missing-data.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { StatusWarning } from "../schemas/status.ts";
import { lossWarnings } from "./loss-warnings.ts";

const clockDifferenceMaxMs = 5_000;
const storeNearLimitRatio = 0.95;
/** The agent of `coral up` joins within this time. */
const joiningMs = 15_000;
const diskFreeMinBytes = 512 * 1024 ** 2;

export function statusWarnings(facts: ColonyFacts, agents: AgentInfo[], losses: LossFact[]): StatusWarning[] {
  return [
    ...storeWarnings(facts),
    ...duplicateWarnings(facts),
    ...sharedProcessWarnings(activeAgents(agents)),
    ...agentWarnings(agents, facts.colony.uptimeMs),
    ...lossWarnings(losses, agents),
    ...nameWarnings(facts),
    ...runtimeWarnings(facts, agents),
  ];
}

function storeWarnings({ store }: ColonyFacts): StatusWarning[] {
  const warnings: StatusWarning[] = [];
  if (store.writeProblem !== "") {
    warnings.push({
      kind: "store-write",
      message: `Cannot store rows: ${store.writeProblem}`,
      fix: `${writeFix(store.writeProblem, "colony.yaml")}; agents buffer rows until the colony catches up`,
    });
  }
  if (store.damage !== "") {
    warnings.push({
      kind: "store-damaged",
      message: `Cannot read part of the store: ${store.damage}`,
      fix: "Check the disk, then restart the colony: the damaged file is set aside, and rows that agents still have are pulled again",
    });
  }
  if (store.diskFreeBytes !== null && store.diskFreeBytes < diskFreeMinBytes) {
    warnings.push({
      kind: "disk-full",
      message: `The file system of the colony's store has ${formatBytes(store.diskFreeBytes)} free`,
      fix: `Free at least ${formatBytes(diskFreeMinBytes)} there, or lower the store's size limit`,
    });
  }
  if (store.limitBytes !== null && store.usedBytes > store.limitBytes * storeNearLimitRatio) {
    warnings.push({
      kind: "store-near-limit",
      message: `The store holds ${formatBytes(store.usedBytes)} of ${formatBytes(store.limitBytes)}: the oldest rows are pruned before their retention ends`,
      fix: "Raise the store's size limit in colony.yaml to keep a longer history",
    });
  }
  return warnings;
}

/** Fixes by the text of the store's errors. */
function writeFix(problem: string, configFile: string): string {
  if (/no space left/i.test(problem)) return "Free space on that file system";
  if (/memory limit/i.test(problem)) return `Raise store.memory in ${configFile} and restart`;
  if (/no permission/i.test(problem)) return "Give the daemon's user write access to its data directory";
  if (/has it open/i.test(problem)) return "Stop the other process that has the store open";
  return "See the log of the daemon for the cause, and check the disk";
}

function duplicateWarnings({ duplicates }: ColonyFacts): StatusWarning[] {
  return duplicates.map((duplicate) => ({
    kind: "duplicate-agent",
    agentId: duplicate.agentId,
    message:
      duplicate.hostnames.length === 1
        ? `Agent id ${duplicate.agentId} is used by two agents on ${duplicate.hostnames.join("")}`
        : `Agent id ${duplicate.agentId} is used by ${duplicate.hostnames.length} hosts: ${duplicate.hostnames.join(", ")}`,
    fix: "Stop the agent on all but one of them, remove the agent directory under CORAL_HOME there, and join again with a new token",
  }));
}

/** Requests that several agents record are counted once; processes and host samples are reported by each of them. */
function sharedProcessWarnings(agents: readonly AgentInfo[]): StatusWarning[] {
  const observers = new Map<string, AgentInfo[]>();
  for (const agent of agents) {
    if (!agent.connected || agent.bootId === "" || agent.pidNamespace === 0) continue;
    const key = `${agent.bootId} ${agent.pidNamespace}`;
    observers.set(key, [...(observers.get(key) ?? []), agent]);
  }
  return [...observers.values()].flatMap(([first, ...others]) =>
    first === undefined || others.length === 0
      ? []
      : [
          {
            kind: "shared-processes" as const,
            agentId: first.agentId,
            message: `Agents ${[first, ...others].map(({ agentId }) => agentId).join(", ")} observe the same processes of ${first.hostname}: its services and load count once for each of them`,
            fix: "Stop all but one of them, or run the others in a pid namespace of their own",
          },
        ],
  );
}

function agentWarnings(agents: AgentInfo[], colonyUptimeMs: number): StatusWarning[] {
  const active = activeAgents(agents);
  if (active.length === 0) {
    if (colonyUptimeMs < joiningMs) return [];
    return [
      {
        kind: "no-agents",
        message: "No agent has joined this colony",
        fix: "Run coral agent start on this machine, or create a token for another host with coral colony token create",
      },
    ];
  }
  const warnings: StatusWarning[] = [];
  for (const agent of active) {
    const { agentId, hostname } = agent;
    if (agent.storeProblem?.at === "agent") {
      warnings.push({
        kind: "store-write",
        agentId,
        message: `${hostname} cannot store rows: ${agent.storeProblem.reason}`,
        fix: `${writeFix(agent.storeProblem.reason, "agent.yaml")}; the agent counts what it loses`,
      });
    } else if (agent.health !== "healthy" && isSilent(agent)) {
      const ago = agent.lastContactAgoMs === null ? "has never reported" : `last reported ${formatDurationMs(agent.lastContactAgoMs)} ago`;
      const reason = agent.healthReason === "" ? "" : ` (${agent.healthReason})`;
      warnings.push({
        kind: "agent-silent",
        agentId,
        message: `${hostname} is ${agent.health}: it ${ago}${reason}`,
        fix: `On ${hostname} run coral agent status; start it with coral agent start, or revoke it if the host is gone`,
      });
    }
    if (agent.link?.isSlow) {
      const { pullBytes, pullMs, bytesPerSecond } = agent.link;
      warnings.push({
        kind: "agent-slow",
        agentId,
        message: `The link to ${hostname} is slow: ${formatBytes(pullBytes)} took ${formatDurationMs(pullMs)} (${formatBitRate(bytesPerSecond)}, mean of the last pulls); its newest rows arrive late`,
        fix: `Check the network between ${hostname} and the colony, and the load of ${hostname}; longer intervals in its agent.yaml send less`,
      });
    }
    if (agent.clockDifferenceMs !== null && Math.abs(agent.clockDifferenceMs) > clockDifferenceMaxMs) {
      const direction = agent.clockDifferenceMs > 0 ? "ahead of" : "behind";
      warnings.push({
        kind: "clock-difference",
        agentId,
        message: `The clock of ${hostname} is ${formatDurationMs(Math.abs(agent.clockDifferenceMs))} ${direction} the colony's`,
        fix: `Turn on time synchronisation on ${hostname} (timedatectl set-ntp true)`,
      });
    }
  }
  return warnings;
}

function nameWarnings({ nameProblems }: ColonyFacts): StatusWarning[] {
  return nameProblems.map((message) => ({
    kind: "endpoint-names",
    message,
    fix: "See service_discovery.external_resolution in colony.yaml, and coral network ranges list",
  }));
}
