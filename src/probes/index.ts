/**
 * The native edge: BPF objects and the C library, through FFI. The only room that does so.
 *
 * @module
 */

export { type CapabilityName, missingCapabilities } from "./capabilities.ts";
export { type AbilityName, type KernelAbility } from "./kernel-ability.ts";
export { type PeerCredentials, peerCredentials, releaseFreeMemory, shareOneHeap, tryLockFile } from "./libc.ts";
export { type BpfReport, type ProbeAbilitiesOptions, probeBpf, probeKernelAbilities } from "./probe-kernel-abilities.ts";
export { createSockDiag, type SockDiag } from "./sock-diag.ts";
