/**
 * BPF objects and the C library through FFI. The only room with native calls.
 *
 * @module
 */

export type { BpfMap, EntryVisitor } from "./bpf-map.ts";
export { type BpfLink, type BpfObject, loadBpfObject } from "./bpf-object.ts";
export { readBtfLayout } from "./btf-layout.ts";
export { missingCapabilities } from "./capabilities.ts";
export { explainBpfFailure } from "./explain-bpf-failure.ts";
export type { AbilityName, KernelAbility } from "./kernel-ability.ts";
export {
  peerCredentials,
  returnLargeBlocks,
  shareOneHeap,
  tryLockFile,
} from "./libc.ts";
export { type BpfReport, probeBpf, probeKernelAbilities } from "./probe-kernel-abilities.ts";
export { openProcessMemory, type ProcessMemory } from "./process-memory.ts";
export { releaseMemory } from "./release-memory.ts";
export type { DrainLimits, RecordVisitor, RingBuffer } from "./ring-buffer.ts";
export { createSockDiag, type SockDiag } from "./sock-diag.ts";
export { type UprobeSites, uprobeSessionSection } from "./uprobe-multi.ts";
