/**
 * Reads the host: `/proc`, `/sys`, cgroups, mounts, listeners. The only room that does. Numbers come as raw counters; collectors make
 * rates of two snapshots. Nothing here stores command lines, environments or file contents.
 * @module
 */

export type { KernelUnits } from "./auxiliary-vector.ts";
export { type CgroupLayout, readCgroupLayout } from "./cgroup-layout.ts";
export type { CgroupScan, CgroupUsage } from "./cgroups.ts";
export type { DiskCounters } from "./diskstats.ts";
export { createHostReader, type HostReader, type HostReaderOptions, type HostSnapshot } from "./host-reader.ts";
export type { Listener, ListenerScan } from "./listeners.ts";
export type { MachineInfo } from "./machine.ts";
export type { MountScan, MountUsage } from "./mounts.ts";
export type { InterfaceCounters } from "./net-dev.ts";
export type { PressureTotals } from "./pressure.ts";
export type { CpuTicks } from "./proc-stat.ts";
export type { ProcessStat } from "./process-stat.ts";
export { processStateOf } from "./process-state.ts";
export type { ProcessDetail } from "./processes.ts";
export type { NamedBy } from "./service-name.ts";
