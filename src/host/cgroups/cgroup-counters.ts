/** Counters of one control group. Null: the controller is absent, or this kernel does not report it. */

import type { HostRoot, ReadTally } from "../files/host-root.ts";
import { fieldsOf, parseKeyValues, toSafeInteger } from "../files/kernel-text.ts";
import type { CgroupHierarchy } from "./cgroup-hierarchies.ts";

export interface CgroupCounters {
  /** CPU time used since the group was created. */
  cpuUsageUs: number | null;
  /** Quota divided by period; null without a limit. */
  cpuLimitCores: number | null;
  /** Quota periods that passed, and those in which the group had to wait. */
  periods: number | null;
  throttledPeriods: number | null;
  /** Without inactive file pages: the working set, which decides about out-of-memory kills. */
  memoryUsedBytes: number | null;
  memoryLimitBytes: number | null;
  oomKills: number | null;
  /** Tasks, threads included. */
  pids: number | null;
}

export function emptyCgroupCounters(): CgroupCounters {
  return {
    cpuUsageUs: null,
    cpuLimitCores: null,
    periods: null,
    throttledPeriods: null,
    memoryUsedBytes: null,
    memoryLimitBytes: null,
    oomKills: null,
    pids: null,
  };
}

/** `max`, -1, and the page-rounded maximum of v1 (9223372036854771712) all mean: no limit. */
export function parseLimit(text: string | null): number | null {
  const value = Number(text?.trim() || Number.NaN);
  return Number.isFinite(value) && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? value : null;
}

function parseNumber(text: string | null): number | null {
  const value = Number(text?.trim() || Number.NaN);
  return Number.isFinite(value) && value >= 0 ? value : null;
}

function ratioOrNull(quota: number | null, period: number | null): number | null {
  return quota !== null && period !== null && quota > 0 && period > 0 ? quota / period : null;
}

function usedBytes(usage: number | null, inactiveFile: number | undefined): number | null {
  return usage === null ? null : toSafeInteger(Math.max(0, usage - (inactiveFile ?? 0)));
}

type ReadFile = (name: string) => string | null;

function readV1(read: ReadFile, controllers: CgroupHierarchy["controllers"], into: CgroupCounters): void {
  if (controllers.has("cpuacct")) {
    const usageNs = parseNumber(read("cpuacct.usage"));
    into.cpuUsageUs = usageNs === null ? null : usageNs / 1_000;
  }
  if (controllers.has("cpu")) {
    const stat = parseKeyValues(read("cpu.stat") ?? "", ["nr_periods", "nr_throttled"]);
    into.periods = stat.get("nr_periods") ?? null;
    into.throttledPeriods = stat.get("nr_throttled") ?? null;
    into.cpuLimitCores = ratioOrNull(parseLimit(read("cpu.cfs_quota_us")), parseLimit(read("cpu.cfs_period_us")));
  }
  if (controllers.has("memory")) {
    const usage = parseNumber(read("memory.usage_in_bytes"));
    into.memoryUsedBytes = usedBytes(usage, parseKeyValues(read("memory.stat") ?? "", ["total_inactive_file"]).get("total_inactive_file"));
    into.memoryLimitBytes = parseLimit(read("memory.limit_in_bytes"));
    into.oomKills = parseKeyValues(read("memory.oom_control") ?? "", ["oom_kill"]).get("oom_kill") ?? null;
  }
  if (controllers.has("pids")) into.pids = parseNumber(read("pids.current"));
}

function readV2(read: ReadFile, controllers: CgroupHierarchy["controllers"], into: CgroupCounters): void {
  if (controllers.has("cpuacct")) {
    const stat = parseKeyValues(read("cpu.stat") ?? "", ["usage_usec", "nr_periods", "nr_throttled"]);
    into.cpuUsageUs = stat.get("usage_usec") ?? null;
    into.periods = stat.get("nr_periods") ?? null;
    into.throttledPeriods = stat.get("nr_throttled") ?? null;
  }
  if (controllers.has("cpu")) {
    const [quota, period] = fieldsOf(read("cpu.max") ?? "");
    into.cpuLimitCores = ratioOrNull(parseLimit(quota ?? null), parseLimit(period ?? null));
  }
  if (controllers.has("memory")) {
    const usage = parseNumber(read("memory.current"));
    into.memoryUsedBytes = usedBytes(usage, parseKeyValues(read("memory.stat") ?? "", ["inactive_file"]).get("inactive_file"));
    into.memoryLimitBytes = parseLimit(read("memory.max"));
    into.oomKills = parseKeyValues(read("memory.events") ?? "", ["oom_kill"]).get("oom_kill") ?? null;
  }
  if (controllers.has("pids")) into.pids = parseNumber(read("pids.current"));
}

/** Fills in the counters of this hierarchy for the group in `directory`. */
export function readCgroupCounters(
  root: HostRoot,
  hierarchy: CgroupHierarchy,
  directory: string,
  into: CgroupCounters,
  tally: ReadTally,
): void {
  const read: ReadFile = (name) => root.readText(`${directory}/${name}`, tally);
  if (hierarchy.version === 1) readV1(read, hierarchy.controllers, into);
  else readV2(read, hierarchy.controllers, into);
}
