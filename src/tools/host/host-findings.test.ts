import { describe, expect, it } from "vitest";
import type { HostFacts } from "../../model/host.ts";
import { hostFactsOf } from "../sample-colony.fixture.ts";
import { hostFindings } from "./host-findings.ts";

const calm = hostFactsOf("a");
const metric = (avg: number) => ({ min: avg, avg, max: avg, points: [] });
const series = (more: Partial<HostFacts["series"]>): Partial<HostFacts> => ({ series: { ...calm.series, ...more } });
const totals = (more: Partial<HostFacts["totals"]>): Partial<HostFacts> => ({ totals: { ...calm.totals, ...more } });
const latest = (more: Partial<NonNullable<HostFacts["latest"]>>): Partial<HostFacts> => ({
  latest: calm.latest && { ...calm.latest, ...more },
});
const mount = {
  mount: "/data",
  device: "d",
  fsType: "ext4",
  sizeBytes: 100,
  usedBytes: 1,
  availableBytes: 1,
  usedRatio: 0.5,
  inodesUsedRatio: 0.1,
  readOnly: false,
};
const disk = {
  device: "vda",
  readBytesPerS: 0,
  writeBytesPerS: 0,
  readsPerS: 10,
  writesPerS: 10,
  readLatencyMs: 1,
  writeLatencyMs: 1,
  maxReadLatencyMs: 1,
  maxWriteLatencyMs: 1,
  busyRatio: 0.1,
  maxBusyRatio: 0.1,
};
const nic = { interface: "eth0", rxBytesPerS: 0, txBytesPerS: 0, rxErrors: 0, txErrors: 0, rxDrops: 0, txDrops: 0 };
const cgroup = {
  cgroup: "/api",
  cpuCores: 1,
  cpuLimitCores: 1,
  throttledRatio: 0,
  maxThrottledRatio: 0,
  memUsedBytes: 10,
  memLimitBytes: 100,
  oomKills: 0,
};

/** Facts, and the expected finding: rule, severity, value, threshold. */
const cases: [Partial<HostFacts>, [string, string, number, number][]][] = [
  [series({ cpuBusyRatio: metric(0.95) }), [["cpu-busy", "warning", 0.95, 0.9]]],
  [series({ cpuBusyRatio: metric(0.9) }), []],
  [series({ cpuStealRatio: metric(0.11) }), [["cpu-steal", "warning", 0.11, 0.1]]],
  [series({ cpuStealRatio: metric(0.35) }), [["cpu-steal", "critical", 0.35, 0.3]]],
  [series({ cpuIowaitRatio: metric(0.3) }), [["cpu-iowait", "warning", 0.3, 0.2]]],
  [series({ psiCpuSomeRatio: metric(0.6) }), [["psi-cpu", "warning", 0.6, 0.5]]],
  [series({ psiMemorySomeRatio: metric(0.12) }), [["psi-memory", "warning", 0.12, 0.1]]],
  [series({ psiMemorySomeRatio: metric(0.1) }), []],
  [series({ psiIoSomeRatio: metric(0.8) }), [["psi-io", "critical", 0.8, 0.7]]],
  [latest({ load1m: 12 }), [["load-per-cpu", "warning", 3, 2]]],
  [latest({ memTotalBytes: 100, memAvailableBytes: 8 }), [["memory-available", "warning", 0.92, 0.9]]],
  [latest({ memTotalBytes: 100, memAvailableBytes: 4 }), [["memory-available", "critical", 0.96, 0.95]]],
  [totals({ oomKills: 1 }), [["oom-kill", "critical", 1, 0]]],
  [{ ...totals({ oomKills: 2 }), cgroups: [{ ...cgroup, oomKills: 2 }] }, [["cgroup-oom-kill", "critical", 2, 0]]],
  [totals({ tcpRetransmits: 500, tcpRetransmitRatio: 0.03 }), [["tcp-retransmits", "warning", 0.03, 0.02]]],
  [totals({ tcpRetransmits: 3, tcpRetransmitRatio: 0.5 }), []],
  [totals({ tcpListenOverflows: 1 }), [["tcp-listen-overflows", "warning", 1, 0]]],
  [{ mounts: [{ ...mount, usedRatio: 0.93 }] }, [["mount-space", "warning", 0.93, 0.9]]],
  [{ mounts: [{ ...mount, usedRatio: 0.99, readOnly: true }] }, []],
  [{ mounts: [{ ...mount, inodesUsedRatio: 0.98 }] }, [["mount-inodes", "critical", 0.98, 0.97]]],
  [{ disks: [{ ...disk, readLatencyMs: 60 }] }, [["disk-read-latency", "warning", 60, 50]]],
  [{ disks: [{ ...disk, readLatencyMs: 60, readsPerS: 0.1 }] }, []],
  [{ disks: [{ ...disk, writeLatencyMs: 600 }] }, [["disk-write-latency", "critical", 600, 500]]],
  [{ disks: [{ ...disk, busyRatio: 0.99 }] }, [["disk-busy", "warning", 0.99, 0.9]]],
  [{ interfaces: [{ ...nic, rxErrors: 1 }] }, [["interface-errors", "warning", 1, 0]]],
  [{ interfaces: [{ ...nic, rxDrops: 60, txDrops: 60 }] }, [["interface-drops", "info", 120, 100]]],
  [{ cgroups: [{ ...cgroup, throttledRatio: 0.2 }] }, [["cgroup-throttled", "warning", 0.2, 0.1]]],
  [{ cgroups: [{ ...cgroup, throttledRatio: null, memUsedBytes: 99 }] }, [["cgroup-memory", "warning", 0.99, 0.95]]],
  [{ latest: null }, []],
];

describe("hostFindings()", () => {
  it("finds nothing on an idle host", () => {
    expect(hostFindings(calm)).toEqual([]);
    expect(hostFindings(hostFactsOf("a", { mounts: [mount], disks: [disk], interfaces: [nic], cgroups: [cgroup] }))).toEqual([]);
  });

  it.each(cases)("case %#", (facts, expected) => {
    const findings = hostFindings(hostFactsOf("a", facts));
    expect(findings.map((finding) => [finding.rule, finding.severity, Number(finding.value.toFixed(6)), finding.threshold])).toEqual(
      expected,
    );
    for (const finding of findings) expect(finding.message).not.toMatch(/undefined|NaN|null/);
  });

  it("sorts findings worst first and names their subject", () => {
    const findings = hostFindings(
      hostFactsOf("a", {
        interfaces: [{ ...nic, rxDrops: 500 }],
        mounts: [{ ...mount, usedRatio: 0.91, availableBytes: 9 * 1024 ** 3 }],
        cgroups: [{ ...cgroup, throttledRatio: 0.6, cpuLimitCores: 0.5 }],
      }),
    );
    expect(findings.map((finding) => [finding.severity, finding.subject, finding.message])).toEqual([
      ["critical", "/api", "/api was throttled in 60% of its CPU periods; its CPU limit of 0.5 cores is too low for its load"],
      ["warning", "/data", "/data is 91% full, 9.00 GiB left"],
      ["info", "eth0", "packets dropped on eth0: 500"],
    ]);
  });
});
