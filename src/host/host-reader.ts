/** Everything that Coral reads from a host, behind one object. Counters are raw; rates are computed from two snapshots. */

import { type CgroupScan, type CgroupScanOptions, scanCgroups } from "./cgroups/cgroups.ts";
import { createHostRoot } from "./files/host-root.ts";
import { type MountEntry, parseMountInfo } from "./files/mountinfo.ts";
import { createPacer } from "./files/pacer.ts";
import { type DiskScan, readDisks } from "./metrics/diskstats.ts";
import { type LoadAverage, parseLoadAverage, parseUptimeS } from "./metrics/loadavg.ts";
import { type MachineInfo, readMachine } from "./metrics/machine.ts";
import { type MemInfo, parseMemInfo } from "./metrics/meminfo.ts";
import { createMountReader, type MountReaderOptions, type MountScan } from "./metrics/mounts.ts";
import { type InterfaceScan, readInterfaces } from "./metrics/net-dev.ts";
import { readTcp, type TcpCounters } from "./metrics/net-snmp.ts";
import { type Pressure, readPressure } from "./metrics/pressure.ts";
import { type ProcStat, parseProcStat } from "./metrics/proc-stat.ts";
import { parseVmStat, type VmStat } from "./metrics/vmstat.ts";
import { type KernelUnits, readKernelUnits } from "./processes/auxiliary-vector.ts";
import { createOpenFileCounter } from "./processes/open-files.ts";
import type { ProcessStat } from "./processes/process-stat.ts";
import { type ProcessDetail, type ProcessScan, readProcessDetail, scanProcesses } from "./processes/processes.ts";
import { createDiscoveryScanner, type DiscoveryScanner, type DiscoveryScannerOptions } from "./sockets/discovery-scanner.ts";
import { type ListenerScan, scanListeners } from "./sockets/listeners.ts";

export interface HostReaderOptions extends MountReaderOptions, CgroupScanOptions {
  /** Where the host's file system is; default `/`. */
  root?: string;
}

/** One snapshot of the machine. System-wide counters are read first, together; the scans follow within milliseconds. */
export interface HostSnapshot {
  stat: ProcStat;
  memory: MemInfo;
  virtualMemory: VmStat;
  load: LoadAverage;
  uptimeS: number;
  pressure: Pressure;
  disks: DiskScan;
  interfaces: InterfaceScan;
  tcp: TcpCounters;
  processes: ProcessScan;
  /** By pid, to rank processes; see OpenFileCounter.survey. */
  openFiles: ReadonlyMap<number, number>;
  cgroups: CgroupScan;
  mounts: MountScan;
  /** True when /proc is mounted with hidepid, so that other users' processes are invisible. */
  processesHidden: boolean;
}

export interface HostReader {
  readonly units: KernelUnits;
  machine(): MachineInfo;
  /** Rejects only when the signal is aborted: what cannot be read is counted in the scans. */
  snapshot(signal?: AbortSignal): Promise<HostSnapshot>;
  /** Null when the process has ended. */
  processDetail(process: ProcessStat): ProcessDetail | null;
  listeners(signal?: AbortSignal): Promise<ListenerScan>;
  /** A scanner with state; the caller keeps it. */
  discovery(options?: DiscoveryScannerOptions): DiscoveryScanner;
}

function isProcHidden(mounts: readonly MountEntry[]): boolean {
  const proc = mounts.findLast((mount) => mount.mountPoint === "/proc" && mount.fsType === "proc");
  return proc?.superOptions.some((option) => /^hidepid=(?:[124]|noaccess|invisible|ptraceable)$/.test(option)) ?? false;
}

export function createHostReader(options: HostReaderOptions = {}): HostReader {
  const root = createHostRoot(options.root);
  const units = readKernelUnits();
  const mountReader = createMountReader(root, options);
  const openFiles = createOpenFileCounter(root);
  const read = (path: string): string => root.readText(path) ?? "";

  /** Parsed again only when the text changed: on a node with hundreds of containers it is long. */
  let mountsText = "";
  let mounts: MountEntry[] = [];
  const currentMounts = (): MountEntry[] => {
    const text = read(`${root.viewpoint}/mountinfo`);
    if (text !== mountsText) {
      mountsText = text;
      mounts = parseMountInfo(text);
    }
    return mounts;
  };

  const snapshot = async (signal?: AbortSignal): Promise<HostSnapshot> => {
    signal?.throwIfAborted();
    const system = {
      stat: parseProcStat(read("/proc/stat")),
      uptimeS: parseUptimeS(read("/proc/uptime")),
      pressure: readPressure(root),
      disks: readDisks(root),
      interfaces: readInterfaces(root),
      tcp: readTcp(root),
      memory: parseMemInfo(read("/proc/meminfo")),
      virtualMemory: parseVmStat(read("/proc/vmstat")),
      load: parseLoadAverage(read("/proc/loadavg")),
    };
    const pacer = createPacer(signal);
    await pacer.rest();
    const processes = await scanProcesses(root, pacer);
    await pacer.rest();
    const counts = await openFiles.survey(processes.processes, pacer);
    await pacer.rest();
    const entries = currentMounts();
    const cgroups = await scanCgroups(root, entries, pacer, options);
    return {
      ...system,
      processes,
      openFiles: counts,
      cgroups,
      mounts: await mountReader.scan(entries, signal),
      processesHidden: isProcHidden(entries),
    };
  };

  return {
    units,
    machine: () => readMachine(root),
    snapshot,
    processDetail: (process) => readProcessDetail(root, process, openFiles),
    listeners: (signal) => scanListeners(root, signal),
    discovery: (discoveryOptions) => createDiscoveryScanner(root, discoveryOptions),
  };
}
