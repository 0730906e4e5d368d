/**
 * Reads the host: `/proc`, `/sys`, cgroups, mounts, listeners. The only room that does. Counters are raw; collectors compute rates from two
 * snapshots. Command lines and environments leave this room redacted.
 * @module
 */

export { type CgroupLayout, readCgroupLayout } from "./cgroups/cgroup-hierarchies.ts";
export { type CgroupMount, readCgroupMounts } from "./cgroups/cgroup-mounts.ts";
export type { CgroupScan, CgroupUsage } from "./cgroups/cgroups.ts";
export { type CodeMapping, type CodeReader, createCodeReader } from "./code/code-mappings.ts";
export { type KernelFunctions, readKernelFunctions } from "./code/kernel-functions.ts";
export { createHostReader, type HostReader, type HostReaderOptions, type HostSnapshot } from "./host-reader.ts";
export { continuesRecord } from "./logs/continues-record.ts";
export { expandPaths } from "./logs/expand-paths.ts";
export { FileTail, type FileTailCounts, type FileTailOptions, type TailPosition } from "./logs/file-tail.ts";
export { type JournalRecord, JournalTail, type JournalTailOptions } from "./logs/journal-tail.ts";
export type { DiskCounters } from "./metrics/diskstats.ts";
export { lockedMapBytes } from "./metrics/locked-memory.ts";
export type { MachineInfo } from "./metrics/machine.ts";
export type { MountScan, MountUsage } from "./metrics/mounts.ts";
export type { InterfaceCounters } from "./metrics/net-dev.ts";
export type { PressureTotals } from "./metrics/pressure.ts";
export type { CpuTicks } from "./metrics/proc-stat.ts";
export type { PodLabels } from "./naming/kubernetes-facts.ts";
export { ownCodeMark } from "./naming/own-processes.ts";
export { type GivenName, type NamedBy, nameInstance } from "./naming/service-name.ts";
export { originAtPort, originOfNamedPort, originOfPort, originOfRun, type ProcessOrigin } from "./naming/service-origin.ts";
export type { KernelUnits } from "./processes/auxiliary-vector.ts";
export { cleanCodeRanges } from "./processes/clean-code.ts";
export type { ExecutableBuild, ExecutableFile } from "./processes/executable-builds.ts";
export { closeInheritedFiles } from "./processes/inherited-files.ts";
export { type CodeMaps, createCodeMaps, type MappedCode, type MappedFile, type OpenedFile } from "./processes/mapped-code.ts";
export { preferForOutOfMemoryKill } from "./processes/oom-score.ts";
export { ownPidNamespace, type PidNamespace } from "./processes/pid-namespace.ts";
export type { ProcessFacts } from "./processes/process-facts.ts";
export { decodeProcessName, readProcessName } from "./processes/process-name.ts";
export type { ProcessStat } from "./processes/process-stat.ts";
export { processStateOf } from "./processes/process-stat.ts";
export type { ProcessEntry } from "./processes/process-table.ts";
export {
  mayGiveCapability,
  type ProcessView,
  pidNamespaceId,
  processesWithGroup,
  processesWithVariable,
  startTicksOf,
  viewProcess,
} from "./processes/process-view.ts";
export type { ProcessDetail } from "./processes/processes.ts";
export { lowerThreadPriority, raiseThreadPriority, takeBackPriority } from "./processes/thread-priority.ts";
export {
  type ContainerDirectory,
  type ContainerDirectoryOptions,
  type ContainerExec,
  type ContainerExecOptions,
  type ContainerInfo,
  containerTitle,
  createContainerDirectory,
} from "./runtime/container-directory.ts";
export { type DetectedRuntime, type DetectRuntimeOptions, detectRuntime, type PodOwner } from "./runtime/detect-runtime.ts";
export type {
  DiscoveryLimits,
  DiscoveryRequest,
  DiscoveryScan,
  DiscoveryScanner,
  DiscoveryScannerOptions,
} from "./sockets/discovery-scanner.ts";
export type { FoldedConnections } from "./sockets/folded-connections.ts";
export type { Listener, ListenerScan } from "./sockets/listeners.ts";
export { type SocketDumper, type SocketProtocol, socketStates } from "./sockets/socket-source.ts";
export type { TrackedSocket } from "./sockets/tracked-socket.ts";
