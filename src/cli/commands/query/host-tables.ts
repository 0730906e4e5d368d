/** Tables below a host's lines. Short form: active or nearly full resources; wide form: everything. */

import type { HostReport } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { renderTable, type Table, tableOf } from "../../output/table.ts";
import { bytes, bytesPerSecond, number, percent, plural } from "../../output/values.ts";
import { usageCell } from "../service/health-style.ts";

/** Rows per table in the short form. */
const shortRows = 5;
/** Used share of a mount, its inodes or a cgroup's memory limit that is shown. */
const nearFullRatio = 0.8;
/** Share of throttled CFS periods that is shown. */
const throttledRatio = 0.01;

type Disk = HostReport["disks"][number];
type Mount = HostReport["mounts"][number];
type Interface = HostReport["interfaces"][number];
type Cgroup = HostReport["cgroups"][number];
type Process = HostReport["topByCpu"][number];

/** Each table has a one-line replacement for the case that nothing in it is notable. */
export function hostTables(host: HostReport, print: Printer, wide: boolean): string[] {
  const block = (title: string, table: Table, otherwise?: string): string[] => {
    if (table.cells.length === 0) return otherwise === undefined ? [] : [`  ${title.padEnd(9)}${otherwise}`];
    const text = renderTable(table, { wide, width: print.width, style: print.style, indent: "    " });
    return [`  ${print.style("bold", title)}`, text.trimEnd()];
  };
  const rows = <T>(all: readonly T[], notable: (row: T) => boolean): readonly T[] => (wide ? all : all.filter(notable).slice(0, shortRows));
  // Less than one request in ten seconds: every root disk has some.
  const isBusy = (disk: Disk): boolean => disk.readsPerS + disk.writesPerS >= 0.1 || disk.busyRatio >= 0.01;
  // Read-only images such as squashfs are always full.
  const isNearFull = (mount: Mount): boolean => !mount.readOnly && Math.max(mount.usedRatio, mount.inodesUsedRatio ?? 0) >= nearFullRatio;
  const hasErrors = (nic: Interface): boolean => nic.rxErrors + nic.txErrors + nic.rxDrops + nic.txDrops > 0;
  return [
    ...(wide ? block("cores", coreTable(host)) : []),
    ...block("disks", diskTable(rows(host.disks, isBusy)), "idle"),
    ...block("mounts", mountTable(rows(host.mounts, isNearFull)), fullestMount(host.mounts)),
    ...block("network", interfaceTable(rows(host.interfaces, hasErrors)), traffic(host.interfaces)),
    ...block("cgroups", cgroupTable(rows(host.cgroups, isPressed))),
    ...block("processes", processTable(wide ? merged(host, Number.POSITIVE_INFINITY) : merged(host, shortRows))),
  ];
}

/** Limited by its own cgroup, independent of the host's free capacity. */
function isPressed(group: Cgroup): boolean {
  const memory = group.memUsedBytes !== null && group.memLimitBytes ? group.memUsedBytes / group.memLimitBytes : 0;
  return (group.maxThrottledRatio ?? 0) >= throttledRatio || memory >= nearFullRatio || group.oomKills > 0;
}

/** One line when no mount is nearly full. */
function fullestMount(mounts: readonly Mount[]): string | undefined {
  const writable = mounts.filter((mount) => !mount.readOnly).sort((a, b) => b.usedRatio - a.usedRatio);
  const fullest = writable[0];
  return fullest && `${plural(writable.length, "mount")}, fullest ${fullest.mount} at ${percent(fullest.usedRatio)}`;
}

/** One line when no interface has errors. */
function traffic(interfaces: readonly Interface[]): string | undefined {
  if (interfaces.length === 0) return undefined;
  const sum = (read: (nic: Interface) => number): number => interfaces.reduce((total, nic) => total + read(nic), 0);
  const rates = `in ${bytesPerSecond(sum((nic) => nic.rxBytesPerS))}, out ${bytesPerSecond(sum((nic) => nic.txBytesPerS))}`;
  return `${plural(interfaces.length, "interface")} without errors, ${rates}`;
}

/** Top processes by CPU, then those by memory that are not listed yet. */
function merged(host: HostReport, limit: number): Process[] {
  const byCpu = host.topByCpu.slice(0, limit);
  const pids = new Set(byCpu.map((process) => process.pid));
  return [...byCpu, ...host.topByRss.slice(0, limit).filter((process) => !pids.has(process.pid))];
}

function coreTable(host: HostReport): Table {
  return tableOf(host.cores, [
    { title: "CORE", key: "core", cell: (core) => core.core },
    { title: "BUSY", key: "busyRatio", cell: (core) => usageCell(core.busyRatio), align: "right" },
    { title: "IOWAIT", key: "iowaitRatio", cell: (core) => percent(core.iowaitRatio) },
    { title: "STEAL", key: "stealRatio", cell: (core) => percent(core.stealRatio) },
    { title: "SOFTIRQ", key: "softirqRatio", cell: (core) => percent(core.softirqRatio) },
  ]);
}

function diskTable(disks: readonly Disk[]): Table {
  return tableOf(disks, [
    { title: "DEVICE", key: "device", cell: (disk) => disk.device },
    { title: "READ", key: "readBytesPerS", cell: (disk) => bytesPerSecond(disk.readBytesPerS) },
    { title: "WRITE", key: "writeBytesPerS", cell: (disk) => bytesPerSecond(disk.writeBytesPerS) },
    { title: "R/S", key: "readsPerS", cell: (disk) => number(disk.readsPerS) },
    { title: "W/S", key: "writesPerS", cell: (disk) => number(disk.writesPerS) },
    { title: "R LATENCY", key: "readLatencyMs", cell: (disk) => milliseconds(disk.readLatencyMs) },
    { title: "W LATENCY", key: "writeLatencyMs", cell: (disk) => milliseconds(disk.writeLatencyMs) },
    { title: "MAX R", key: "maxReadLatencyMs", cell: (disk) => milliseconds(disk.maxReadLatencyMs), wide: true },
    { title: "MAX W", key: "maxWriteLatencyMs", cell: (disk) => milliseconds(disk.maxWriteLatencyMs), wide: true },
    { title: "BUSY", key: "busyRatio", cell: (disk) => usageCell(disk.busyRatio), align: "right" },
    { title: "MAX BUSY", key: "maxBusyRatio", cell: (disk) => usageCell(disk.maxBusyRatio), align: "right" },
  ]);
}

function mountTable(mounts: readonly Mount[]): Table {
  return tableOf(mounts, [
    { title: "MOUNT", key: "mount", cell: (mount) => mount.mount },
    { title: "USED", key: "usedRatio", cell: (mount) => usageCell(mount.usedRatio), align: "right" },
    { title: "LEFT", key: "availableBytes", cell: (mount) => bytes(mount.availableBytes) },
    { title: "SIZE", key: "sizeBytes", cell: (mount) => bytes(mount.sizeBytes) },
    { title: "INODES", key: "inodesUsedRatio", cell: (mount) => usageCell(mount.inodesUsedRatio), align: "right" },
    { title: "TYPE", key: "fsType", cell: (mount) => mount.fsType, wide: true },
    { title: "DEVICE", key: "device", cell: (mount) => mount.device, wide: true },
    { title: "READ-ONLY", key: "readOnly", cell: (mount) => (mount.readOnly ? "yes" : "no"), wide: true },
  ]);
}

function interfaceTable(interfaces: readonly Interface[]): Table {
  return tableOf(interfaces, [
    { title: "INTERFACE", key: "interface", cell: (nic) => nic.interface },
    { title: "IN", key: "rxBytesPerS", cell: (nic) => bytesPerSecond(nic.rxBytesPerS) },
    { title: "OUT", key: "txBytesPerS", cell: (nic) => bytesPerSecond(nic.txBytesPerS) },
    { title: "ERRORS IN", key: "rxErrors", cell: (nic) => nic.rxErrors },
    { title: "ERRORS OUT", key: "txErrors", cell: (nic) => nic.txErrors },
    { title: "DROPS IN", key: "rxDrops", cell: (nic) => nic.rxDrops },
    { title: "DROPS OUT", key: "txDrops", cell: (nic) => nic.txDrops },
  ]);
}

function cgroupTable(cgroups: readonly Cgroup[]): Table {
  return tableOf(cgroups, [
    { title: "CGROUP", key: "cgroup", cell: (group) => group.cgroup },
    { title: "CORES", key: "cpuCores", cell: (group) => number(group.cpuCores) },
    { title: "LIMIT", key: "cpuLimitCores", cell: (group) => number(group.cpuLimitCores) },
    { title: "THROTTLED", key: "throttledRatio", cell: (group) => percent(group.throttledRatio) },
    { title: "MAX", key: "maxThrottledRatio", cell: (group) => percent(group.maxThrottledRatio) },
    { title: "MEMORY", key: "memUsedBytes", cell: (group) => bytes(group.memUsedBytes) },
    { title: "LIMIT", key: "memLimitBytes", cell: (group) => bytes(group.memLimitBytes) },
    { title: "OOM KILLS", key: "oomKills", cell: (group) => group.oomKills },
  ]);
}

function processTable(processes: readonly Process[]): Table {
  return tableOf(processes, [
    { title: "PID", key: "pid", cell: (process) => process.pid },
    { title: "NAME", key: "name", cell: (process) => process.name, align: "left" },
    { title: "CORES", key: "cpuCores", cell: (process) => process.cpuCores.toFixed(2), align: "right" },
    { title: "RSS", key: "rssBytes", cell: (process) => bytes(process.rssBytes) },
    { title: "THREADS", key: "threads", cell: (process) => process.threads },
    { title: "FILES", key: "openFiles", cell: (process) => process.openFiles },
    { title: "STATE", key: "state", cell: (process) => process.state, wide: true },
    { title: "UID", key: "userId", cell: (process) => process.userId, wide: true },
    { title: "EXECUTABLE", key: "exe", cell: (process) => process.exe, wide: true },
  ]);
}

function milliseconds(value: number | null): string | null {
  return value === null ? null : `${number(value)} ms`;
}
