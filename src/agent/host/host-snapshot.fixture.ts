import type { CgroupUsage, DiskCounters, HostReader, HostSnapshot, InterfaceCounters, ProcessStat } from "../../host/index.ts";

const cpu = { user: 0, nice: 0, system: 0, idle: 0, iowait: 0, irq: 0, softirq: 0, steal: 0 };
const tally = () => ({ denied: 0, vanished: 0, failed: 0, truncated: 0 });

/** An idle host, with the given parts replaced. */
export function snapshotOf(more: Partial<HostSnapshot> = {}): HostSnapshot {
  return {
    stat: { total: cpu, cores: new Map(), contextSwitches: 0, forks: 0, processesRunning: 0, processesBlocked: 0 },
    memory: { totalBytes: 0, freeBytes: 0, availableBytes: 0, cachedBytes: 0, dirtyBytes: 0, swapTotalBytes: 0, swapUsedBytes: 0 },
    virtualMemory: { swapInPages: 0, swapOutPages: 0, oomKills: 0 },
    load: { load1m: 0, load5m: 0, load15m: 0 },
    uptimeS: 1000,
    pressure: { cpu: { someUs: 0, fullUs: 0 }, memory: { someUs: 0, fullUs: 0 }, io: { someUs: 0, fullUs: 0 } },
    disks: { disks: [], cut: 0 },
    interfaces: { interfaces: [], cut: 0 },
    tcp: { established: 0, outSegments: 0, retransmits: 0, attemptFails: 0, resetsSent: 0, listenOverflows: 0, listenDrops: 0 },
    processes: { processes: [], cut: 0, tally: tally() },
    openFiles: new Map(),
    cgroups: { groups: [], cut: 0, tally: tally() },
    mounts: { mounts: [], unresponsive: [], failed: 0, cut: 0 },
    processesHidden: false,
    ...more,
  };
}

export const ticksOf = (more: Partial<typeof cpu>): typeof cpu => ({ ...cpu, ...more });

export const diskOf = (more: Partial<DiskCounters> = {}): DiskCounters => ({
  device: "vda",
  reads: 0,
  readBytes: 0,
  readMs: 0,
  writes: 0,
  writtenBytes: 0,
  writeMs: 0,
  busyMs: 0,
  weightedMs: 0,
  ...more,
});

export const interfaceOf = (more: Partial<InterfaceCounters> = {}): InterfaceCounters => ({
  name: "eth0",
  rxBytes: 0,
  rxPackets: 0,
  rxErrors: 0,
  rxDrops: 0,
  txBytes: 0,
  txPackets: 0,
  txErrors: 0,
  txDrops: 0,
  ...more,
});

export const cgroupOf = (more: Partial<CgroupUsage> = {}): CgroupUsage => ({
  path: "/web",
  cpuUsageUs: null,
  cpuLimitCores: null,
  periods: null,
  throttledPeriods: null,
  memoryUsedBytes: null,
  memoryLimitBytes: null,
  oomKills: null,
  pids: null,
  ...more,
});

export const processOf = (pid: number, more: Partial<ProcessStat> = {}): ProcessStat => ({
  pid,
  startTicks: 50,
  name: `p${pid}`,
  state: "S",
  cpuTicks: 0,
  majorFaults: 0,
  threads: 1,
  rssPages: 0,
  isKernelThread: false,
  ...more,
});

export interface ScriptedReader extends HostReader {
  /** Snapshots taken. */
  readonly taken: number;
}

/** Returns the given snapshots one after the other, then the last one repeatedly. */
export function scriptedReader(snapshots: HostSnapshot[]): ScriptedReader {
  let taken = 0;
  return {
    units: { pageBytes: 4096, ticksPerS: 100 },
    machine: () => ({ hostname: "fixture", machineId: "", bootId: "", os: "", kernel: "", arch: "", uptimeS: 0 }),
    snapshot: async (signal) => {
      signal?.throwIfAborted();
      return snapshots[Math.min(taken++, snapshots.length - 1)] ?? snapshotOf();
    },
    processDetail: (process) => (process.name === "gone" ? null : { userId: 7, exe: `/bin/${process.name}`, cgroup: "/", openFiles: 3 }),
    listeners: async () => ({ listeners: [], deniedProcesses: 0, withoutProcess: 0, cut: 0 }),
    discovery: () => {
      throw new Error("This reader has no sockets");
    },
    get taken() {
      return taken;
    },
  };
}
