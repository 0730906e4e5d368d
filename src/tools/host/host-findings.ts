/**
 * Deterministic rules over one host's facts; each finding carries the value and the threshold. Rules use averages over the window
 * where a single sample would raise false alarms, and counts where one event matters.
 */

import { formatBytes } from "../../base/units.ts";
import type { HostFacts } from "../../model/host.ts";
import type { HostFinding } from "../schemas/host.ts";

type Severity = HostFinding["severity"];

interface Level {
  severity: Severity;
  above: number;
}

/** Levels are ordered worst first; the first one exceeded becomes the finding. */
interface Check {
  rule: string;
  subject: string;
  value: number | null | undefined;
  unit: HostFinding["unit"];
  levels: Level[];
  message: (value: string) => string;
}

const severities: Severity[] = ["critical", "warning", "info"];

export function hostFindings(facts: HostFacts): HostFinding[] {
  const checks = [
    ...cpuChecks(facts),
    ...memoryChecks(facts),
    ...networkChecks(facts),
    ...mountChecks(facts),
    ...diskChecks(facts),
    ...cgroupChecks(facts),
  ];
  return checks.flatMap(apply).sort((a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity));
}

function apply(check: Check): HostFinding[] {
  const { rule, subject, value, unit } = check;
  if (value === null || value === undefined || !Number.isFinite(value)) return [];
  const level = check.levels.find((candidate) => value > candidate.above);
  if (!level) return [];
  return [{ rule, severity: level.severity, subject, message: check.message(show(value, unit)), value, threshold: level.above, unit }];
}

function show(value: number, unit: HostFinding["unit"]): string {
  if (unit === "ratio") return `${(value * 100).toFixed(value < 0.1 ? 1 : 0)}%`;
  return unit === "ms" ? `${value.toFixed(value < 10 ? 1 : 0)} ms` : String(value);
}

function levels(warning: number, critical?: number): Level[] {
  const warn: Level = { severity: "warning", above: warning };
  return critical === undefined ? [warn] : [{ severity: "critical", above: critical }, warn];
}

function cpuChecks({ series, latest }: HostFacts): Check[] {
  const subject = "";
  return [
    {
      rule: "cpu-busy",
      subject,
      value: series.cpuBusyRatio.avg,
      unit: "ratio",
      levels: levels(0.9),
      message: (value) => `CPUs were busy ${value} of the time: tasks wait for a CPU`,
    },
    {
      rule: "cpu-steal",
      subject,
      value: series.cpuStealRatio.avg,
      unit: "ratio",
      levels: levels(0.1, 0.3),
      message: (value) => `the hypervisor took ${value} of the CPU time for other machines`,
    },
    {
      rule: "cpu-iowait",
      subject,
      value: series.cpuIowaitRatio.avg,
      unit: "ratio",
      levels: levels(0.2),
      message: (value) => `CPUs were idle with IO outstanding ${value} of the time: storage is too slow for its load`,
    },
    {
      rule: "psi-cpu",
      subject,
      value: series.psiCpuSomeRatio.avg,
      unit: "ratio",
      levels: levels(0.5),
      message: (value) => `at least one task waited for a CPU ${value} of the time (PSI)`,
    },
    {
      rule: "load-per-cpu",
      subject,
      value: latest && latest.cpuCount > 0 ? latest.load1m / latest.cpuCount : null,
      unit: "ratio",
      levels: levels(2, 8),
      message: (value) => `the 1-minute load is ${value} of the CPU count: tasks queue for CPU or disk`,
    },
  ];
}

function memoryChecks({ series, latest, totals, cgroups }: HostFacts): Check[] {
  const subject = "";
  const available = latest ? formatBytes(latest.memAvailableBytes) : "";
  // The kernel counts an OOM kill in a control group for the host too; report it once, at the group.
  const killsInGroups = cgroups.reduce((sum, group) => sum + group.oomKills, 0);
  return [
    {
      rule: "memory-available",
      subject,
      value: latest && latest.memTotalBytes > 0 ? 1 - latest.memAvailableBytes / latest.memTotalBytes : null,
      unit: "ratio",
      levels: levels(0.9, 0.95),
      message: (value) => `memory is ${value} in use, ${available} available: allocations may stall or trigger the OOM killer`,
    },
    {
      rule: "psi-memory",
      subject,
      value: series.psiMemorySomeRatio.avg,
      unit: "ratio",
      levels: levels(0.1, 0.4),
      message: (value) => `at least one task waited for memory ${value} of the time (PSI): the host is reclaiming or swapping`,
    },
    {
      rule: "psi-io",
      subject,
      value: series.psiIoSomeRatio.avg,
      unit: "ratio",
      levels: levels(0.3, 0.7),
      message: (value) => `at least one task waited for IO ${value} of the time (PSI)`,
    },
    {
      rule: "oom-kill",
      subject,
      value: totals.oomKills - killsInGroups,
      unit: "count",
      levels: [{ severity: "critical", above: 0 }],
      message: (value) => `processes killed for lack of memory (OOM killer): ${value}`,
    },
  ];
}

function networkChecks({ totals, interfaces }: HostFacts): Check[] {
  const checks: Check[] = [
    {
      rule: "tcp-retransmits",
      subject: "",
      // On an idle host a few segments are noise.
      value: totals.tcpRetransmits >= 10 ? totals.tcpRetransmitRatio : null,
      unit: "ratio",
      levels: levels(0.02, 0.1),
      message: (value) => `${value} of the TCP segments were retransmitted: packets are lost or a peer is stalled`,
    },
    {
      rule: "tcp-listen-overflows",
      subject: "",
      value: totals.tcpListenOverflows,
      unit: "count",
      levels: levels(0),
      message: (value) =>
        `connections refused because an accept queue was full: ${value}; a server accepts too slowly or its backlog is too small`,
    },
  ];
  for (const nic of interfaces) {
    checks.push(
      {
        rule: "interface-errors",
        subject: nic.interface,
        value: nic.rxErrors + nic.txErrors,
        unit: "count",
        levels: levels(0),
        message: (value) => `packets with errors on ${nic.interface}: ${value}`,
      },
      {
        rule: "interface-drops",
        subject: nic.interface,
        value: nic.rxDrops + nic.txDrops,
        unit: "count",
        levels: [{ severity: "info", above: 100 }],
        message: (value) => `packets dropped on ${nic.interface}: ${value}`,
      },
    );
  }
  return checks;
}

function mountChecks({ mounts }: HostFacts): Check[] {
  // Images such as squashfs are always full.
  return mounts
    .filter((mount) => !mount.readOnly)
    .flatMap((mount): Check[] => [
      {
        rule: "mount-space",
        subject: mount.mount,
        value: mount.usedRatio,
        unit: "ratio",
        levels: levels(0.9, 0.97),
        message: (value) => `${mount.mount} is ${value} full, ${formatBytes(mount.availableBytes)} left`,
      },
      {
        rule: "mount-inodes",
        subject: mount.mount,
        value: mount.inodesUsedRatio,
        unit: "ratio",
        levels: levels(0.9, 0.97),
        message: (value) => `${mount.mount} has used ${value} of its inodes: creating files will fail although there is free space`,
      },
    ]);
}

function diskChecks({ disks }: HostFacts): Check[] {
  return disks.flatMap((disk): Check[] => [
    {
      rule: "disk-read-latency",
      subject: disk.device,
      value: disk.readsPerS >= 1 ? disk.readLatencyMs : null,
      unit: "ms",
      levels: levels(50, 250),
      message: (value) => `a read from ${disk.device} took ${value} on average`,
    },
    {
      rule: "disk-write-latency",
      subject: disk.device,
      value: disk.writesPerS >= 1 ? disk.writeLatencyMs : null,
      unit: "ms",
      levels: levels(100, 500),
      message: (value) => `a write to ${disk.device} took ${value} on average`,
    },
    {
      rule: "disk-busy",
      subject: disk.device,
      value: disk.busyRatio,
      unit: "ratio",
      levels: levels(0.9),
      message: (value) => `${disk.device} had requests outstanding ${value} of the time`,
    },
  ]);
}

function cgroupChecks({ cgroups }: HostFacts): Check[] {
  return cgroups.flatMap((group): Check[] => [
    {
      rule: "cgroup-throttled",
      subject: group.cgroup,
      value: group.throttledRatio,
      unit: "ratio",
      levels: levels(0.1, 0.5),
      message: (value) => {
        const limit = group.cpuLimitCores === null ? "" : ` of ${group.cpuLimitCores} cores`;
        return `${group.cgroup} was throttled in ${value} of its CPU periods; its CPU limit${limit} is too low for its load`;
      },
    },
    {
      rule: "cgroup-memory",
      subject: group.cgroup,
      value:
        group.memUsedBytes !== null && group.memLimitBytes !== null && group.memLimitBytes > 0
          ? group.memUsedBytes / group.memLimitBytes
          : null,
      unit: "ratio",
      levels: levels(0.95),
      message: (value) =>
        `${group.cgroup} uses ${value} of its memory limit of ${formatBytes(group.memLimitBytes ?? 0)} (page cache included)`,
    },
    {
      rule: "cgroup-oom-kill",
      subject: group.cgroup,
      value: group.oomKills,
      unit: "count",
      levels: [{ severity: "critical", above: 0 }],
      message: (value) => `processes of ${group.cgroup} killed at its memory limit (OOM killer): ${value}`,
    },
  ]);
}
