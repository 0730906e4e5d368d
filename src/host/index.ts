/**
 * Reads the host: `/proc`, `/sys`, cgroups, mounts, listeners. The only room that does. Numbers come as raw counters; collectors make
 * rates of two snapshots. Command lines and environments leave this room redacted.
 * @module
 */

export { isSecretName } from "../base/secret-names.ts";
export { mask, redactShapes } from "../base/secret-shapes.ts";
export type { KernelUnits } from "./auxiliary-vector.ts";
export { type CgroupLayout, readCgroupLayout } from "./cgroup-layout.ts";
export { type CgroupMount, readCgroupMounts } from "./cgroup-mounts.ts";
export type { CgroupScan, CgroupUsage } from "./cgroups.ts";
export { type AddressRange, cleanCodeRanges } from "./clean-code.ts";
export type { DiscoveryLimits, DiscoveryRequest, DiscoveryScan, DiscoveryScanner, DiscoveryScannerOptions } from "./discovery-scanner.ts";
export type { DiskCounters } from "./diskstats.ts";
export { type ReadAt, readBuildId } from "./elf-build-id.ts";
export { type CodeRange, findCodeRange, readPointers } from "./elf-code.ts";
export { type ElfImage, readElfImage } from "./elf-image.ts";
export { type ElfFunction, findElfFunctions, findExportedFunctions, mayDefine } from "./elf-symbols.ts";
export type { ExecutableBuild, ExecutableFile } from "./executable-builds.ts";
export { expandPaths } from "./expand-paths.ts";
export { FileTail, type FileTailCounts, type FileTailOptions, type TailPosition } from "./file-tail.ts";
export type { FoldedConnections } from "./folded-connections.ts";
export { type GoProgram, isGoProgram, readGoProgram } from "./go-symbols.ts";
export { createHostReader, type HostReader, type HostReaderOptions, type HostSnapshot } from "./host-reader.ts";
export { closeInheritedFiles } from "./inherited-files.ts";
export { type JournalRecord, JournalTail, type JournalTailOptions } from "./journal-tail.ts";
export type { PodLabels } from "./kubernetes-facts.ts";
export type { Listener, ListenerScan } from "./listeners.ts";
export { lockedMapBytes } from "./locked-memory.ts";
export type { MachineInfo } from "./machine.ts";
export { type CodeMaps, createCodeMaps, type MappedCode, type MappedFile, type OpenedFile } from "./mapped-code.ts";
export type { MountScan, MountUsage } from "./mounts.ts";
export type { InterfaceCounters } from "./net-dev.ts";
export { ownPidNamespace } from "./pid-namespace.ts";
export type { PressureTotals } from "./pressure.ts";
export type { CpuTicks } from "./proc-stat.ts";
export type { ProcessFacts } from "./process-facts.ts";
export { decodeProcessName, readProcessName } from "./process-name.ts";
export type { ProcessStat } from "./process-stat.ts";
export { processStateOf } from "./process-state.ts";
export type { ProcessEntry } from "./process-table.ts";
export {
  mayGiveCapability,
  type ProcessView,
  pidNamespaceId,
  processesWithGroup,
  processesWithVariable,
  startTicksOf,
  viewProcess,
} from "./process-view.ts";
export type { ProcessDetail } from "./processes.ts";
export { noExtraRules, type RedactionRules, redactCommandLine } from "./redact.ts";
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
export { type NamedBy, nameInstance, type ServiceName } from "./service-name.ts";
export { type SocketDumper, type SocketProtocol, socketStates } from "./socket-source.ts";
export { lowerThreadPriority, raiseThreadPriority, takeBackPriority } from "./thread-priority.ts";
export type { TrackedSocket } from "./tracked-socket.ts";
