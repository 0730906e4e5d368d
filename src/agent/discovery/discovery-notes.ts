/** Sentences about what a scan for services and connections could not see. */

import { formatDurationMs } from "../../base/units.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { DiscoveryLimits } from "../../host/index.ts";
import { hiddenReason, plural } from "./hidden-reason.ts";

/** Facts of the last scan from which the notes are made. */
export interface DiscoveryGaps {
  limits: DiscoveryLimits;
  /** Instances above the limit. */
  cutInstances: number;
  config: AgentDiscoveryConfig;
  /** Why there are no connection events from the kernel; null while there are. */
  kernelProblem: string | null;
}

/** One sentence per gap, with the fix if there is one; empty when nothing was missed. */
export function discoveryNotes(
  { limits, cutInstances, config, kernelProblem }: DiscoveryGaps,
  hidden: () => string = hiddenReason,
): string[] {
  const notes: string[] = [];
  const { listenersWithoutProcess: listeners, connectionsWithoutProcess: connections, deniedProcesses: denied } = limits;
  if (listeners > 0) notes.push(`${plural(listeners, "listening socket has", "listening sockets have")} no known process; ${hidden()}`);
  if (connections > 0) notes.push(`${plural(connections, "connection has", "connections have")} no known process; ${hidden()}`);
  if (denied > 0) {
    notes.push(
      `${plural(denied, "process", "processes")} cannot be inspected: services in their network namespaces are missing; ${hidden()}`,
    );
  }
  if (limits.unreadNamespaces > 0)
    notes.push(`${plural(limits.unreadNamespaces, "network namespace")} could not be read; keeping the result of the previous scan`);
  if (limits.folded > 0)
    notes.push(`${plural(limits.folded, "connection")} above the limit are counted per address pair instead of one by one`);
  if (limits.cut + cutInstances > 0)
    notes.push(`${limits.cut + cutInstances} sockets, processes or file descriptors above the limit were skipped`);
  if (limits.skippedBuilds > 0)
    notes.push(`${plural(limits.skippedBuilds, "executable")} not hashed, too large or too many: their builds are unknown`);
  if (!config.methods.includes("connection_tracking")) return notes;
  if (limits.withoutCounters !== null && config.backend !== "procfs") {
    notes.push(`Some connections have no byte counts or round-trip times: ${limits.withoutCounters}`);
  }
  const isKernelWanted = config.backend === "auto" || config.backend === "ebpf";
  if (isKernelWanted && kernelProblem === null) return notes;
  const reason = isKernelWanted ? `: ${kernelProblem}` : "";
  notes.push(`Connections that open and close between two scans (${formatDurationMs(config.scanIntervalMs)}) are missed${reason}`);
  return notes;
}
