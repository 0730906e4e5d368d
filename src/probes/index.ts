/**
 * The native edge: BPF objects and the C library, through FFI. The only room that does so.
 *
 * @module
 */

export { peerCredentials, tryLockFile, type PeerCredentials } from "./libc.ts";
