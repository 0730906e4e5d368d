/** What a scan for services and connections could not see, as sentences. */

import { formatDurationMs } from "../../base/units.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { DiscoveryLimits } from "../../host/index.ts";
import { count, whyHidden } from "./why-hidden.ts";

export interface DiscoveryGaps {
  limits: DiscoveryLimits;
  /** Instances above the limit. */
  cutInstances: number;
  config: AgentDiscoveryConfig;
  /** Why the kernel does not tell of connections; null when it does. */
  kernelProblem: string | null;
}

export function discoveryNotes({ limits, cutInstances, config, kernelProblem }: DiscoveryGaps, hidden: () => string = whyHidden): string[] {
  const notes: string[] = [];
  const { listenersWithoutProcess: listeners, connectionsWithoutProcess: connections, deniedProcesses: denied } = limits;
  if (listeners > 0) notes.push(`${count(listeners, "listening socket has", "listening sockets have")} no known process; ${hidden()}`);
  if (connections > 0) notes.push(`${count(connections, "connection has", "connections have")} no known process; ${hidden()}`);
  if (denied > 0) {
    notes.push(
      `${count(denied, "process", "processes")} cannot be looked into: services in network namespaces of their own are missing; ${hidden()}`,
    );
  }
  if (limits.unreadNamespaces > 0)
    notes.push(`${count(limits.unreadNamespaces, "network namespace")} could not be read; what was known of it is kept`);
  if (limits.folded > 0)
    notes.push(`${count(limits.folded, "connection")} above the limit are counted by their ends instead of one by one`);
  if (limits.cut + cutInstances > 0)
    notes.push(`${limits.cut + cutInstances} sockets, processes or descriptors were not looked at: there are too many`);
  if (limits.skippedBuilds > 0)
    notes.push(`${count(limits.skippedBuilds, "executable")} too large or too many to be hashed: their build is unknown`);
  if (!config.methods.includes("connection_tracking")) return notes;
  if (limits.withoutCounters !== null && config.backend !== "procfs") {
    notes.push(`Some connections have no bytes and round-trip times: ${limits.withoutCounters}`);
  }
  const isKernelWanted = config.backend === "auto" || config.backend === "ebpf";
  if (isKernelWanted && kernelProblem === null) return notes;
  const why = isKernelWanted ? `: ${kernelProblem}` : "";
  notes.push(`Connections that begin and end between two scans (${formatDurationMs(config.scanIntervalMs)}) are not seen${why}`);
  return notes;
}
