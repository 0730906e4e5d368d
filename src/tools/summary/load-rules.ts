/** Rules about the environment of a service: limits of its control groups, load of its hosts. */

import { formatBytes } from "../../base/units.ts";
import { share } from "../health/figures.ts";
import { thresholds } from "../health/thresholds.ts";
import type { SummaryFinding } from "../schemas/summary.ts";
import { finding } from "./finding.ts";
import type { ServiceFacts } from "./summary-rules.ts";

export function cgroupFindings({ cgroups, hostname }: Pick<ServiceFacts, "cgroups" | "hostname">): SummaryFinding[] {
  return cgroups.flatMap((group): SummaryFinding[] => {
    const findings: SummaryFinding[] = [];
    const subject = `${hostname(group.agentId)} ${group.cgroup}`;
    const where = `on ${hostname(group.agentId)}`;
    if (group.oomKills > 0) {
      findings.push(
        finding(
          "oom-kill",
          "critical",
          "cause",
          subject,
          `${group.oomKills} of its processes were killed ${where} at its memory limit (OOM killer)`,
          group.oomKills,
          0,
          "count",
        ),
      );
    }
    const throttled = group.throttledRatio ?? 0;
    const { warning, critical } = thresholds.throttled;
    if (throttled > warning) {
      const limit = group.cpuLimitCores === null ? "" : ` of ${group.cpuLimitCores} cores`;
      const message = `its CPU limit${limit} throttled it in ${share(throttled)} of the periods ${where}`;
      findings.push(
        finding(
          "throttled",
          throttled > critical ? "critical" : "warning",
          "cause",
          subject,
          message,
          throttled,
          throttled > critical ? critical : warning,
          "ratio",
        ),
      );
    }
    const used = group.memUsedBytes !== null && group.memLimitBytes ? group.memUsedBytes / group.memLimitBytes : 0;
    if (used > thresholds.cgroupMemory) {
      const message = `it uses ${share(used)} of its memory limit of ${formatBytes(group.memLimitBytes ?? 0)} ${where} (page cache included)`;
      findings.push(finding("memory-limit", "warning", "cause", subject, message, used, thresholds.cgroupMemory, "ratio"));
    }
    return findings;
  });
}

const hostChecks: { metric: keyof typeof thresholds.host; rule: string; text: (value: string) => string }[] = [
  { metric: "cpuBusyRatio", rule: "host-cpu", text: (value) => `CPUs are busy ${value} of the time` },
  { metric: "psiCpuRatio", rule: "host-cpu-pressure", text: (value) => `tasks wait for a CPU ${value} of the time` },
  { metric: "cpuStealRatio", rule: "host-steal", text: (value) => `the hypervisor takes ${value} of the CPU time` },
  { metric: "memUsedRatio", rule: "host-memory", text: (value) => `${value} of memory is used` },
  { metric: "psiMemoryRatio", rule: "host-memory-pressure", text: (value) => `tasks wait for memory ${value} of the time` },
  { metric: "psiIoRatio", rule: "host-io-pressure", text: (value) => `tasks wait for storage ${value} of the time` },
];

/** Least increase of a host's load that explains a slowdown. */
const busier = 1.25;

/** A host explains a slowdown when it is saturated, more than usual, and no callee explains the slowdown. */
export function hostFindings({ hosts, hostname }: Pick<ServiceFacts, "hosts" | "hostname">): SummaryFinding[] {
  return hosts.flatMap((host) =>
    hostChecks.flatMap(({ metric, rule, text }): SummaryFinding[] => {
      const value = host[metric];
      const usual = metric === "cpuStealRatio" || metric === "memUsedRatio" ? null : host.usual[metric];
      if (value === null || value <= thresholds.host[metric]) return [];
      if (usual !== null && value < Math.min(1, busier * usual)) return [];
      const subject = hostname(host.agentId);
      return [
        finding(rule, "warning", "cause", subject, `host ${subject}: ${text(share(value))}`, value, thresholds.host[metric], "ratio"),
      ];
    }),
  );
}
