/**
 * The native edge: BPF objects and the C library, through FFI. The only room that does so.
 *
 * @module
 */

export type { BpfMap, EntryVisitor } from "./bpf-map.ts";
export { type BpfLink, type BpfObject, type LoadBpfOptions, loadBpfObject } from "./bpf-object.ts";
export { type BtfLayout, type Extent, readBtfLayout, type StructLayout } from "./btf-layout.ts";
export { type CapabilityName, missingCapabilities } from "./capabilities.ts";
export { type BpfFailure, explainBpfFailure } from "./explain-bpf-failure.ts";
export type { AbilityName, KernelAbility } from "./kernel-ability.ts";
export {
  dropMappedPages,
  memoryPageBytes,
  type PeerCredentials,
  peerCredentials,
  releaseFreeMemory,
  returnLargeBlocks,
  shareOneHeap,
  tryLockFile,
} from "./libc.ts";
export { type BpfReport, type ProbeAbilitiesOptions, probeBpf, probeKernelAbilities } from "./probe-kernel-abilities.ts";
export type { ProgramStats } from "./program-stats.ts";
export type { DrainLimits, RecordVisitor, RingBuffer } from "./ring-buffer.ts";
export { createSockDiag, type SockDiag } from "./sock-diag.ts";
export { type UprobeSites, uprobeSessionSection } from "./uprobe-multi.ts";
