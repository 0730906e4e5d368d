/** Calls of the C library that Node does not offer. Linux only; koffi is loaded at the first call. */

import { createRequire } from "node:module";
import { CoralError } from "../base/errors.ts";

/** The peer of a unix socket, as the kernel recorded it at connect time. */
export interface PeerCredentials {
  pid: number;
  uid: number;
  gid: number;
}

interface Libc {
  getsockopt(fd: number, level: number, name: number, value: Buffer, length: Buffer): number;
  flock(fd: number, operation: number): number;
  /** glibc only. */
  mallocTrim: ((padBytes: number) => number) | undefined;
  /** glibc only. */
  mallopt: ((parameter: number, value: number) => number) | undefined;
  madvise(start: number, sizeBytes: number, advice: number): number;
  pageBytes: number;
  errno(): number;
}

// <asm-generic/socket.h>: the same on x86 and arm.
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
const LOCK_EX = 2;
const LOCK_NB = 4;
/** <malloc.h> */
const M_TRIM_THRESHOLD = -1;
const M_MMAP_THRESHOLD = -3;
const M_ARENA_MAX = -8;
const largeBlockBytes = 1024 * 1024;
const keptFreeBytes = 4 * 1024 * 1024;
/** <asm-generic/mman-common.h> */
const MADV_DONTNEED = 4;
/** <bits/confname.h>; the same in musl. */
const _SC_PAGESIZE = 30;
const EINTR = 4;
const EWOULDBLOCK = 11;

let loaded: Libc | undefined;

function libc(what: string): Libc {
  if (process.platform !== "linux") {
    throw new CoralError({ code: "unsupported", message: `Cannot ${what}: this needs Linux, the platform is "${process.platform}"` });
  }
  loaded ??= load(what);
  return loaded;
}

function load(what: string): Libc {
  try {
    const koffi = createRequire(import.meta.url)("koffi") as typeof import("koffi");
    // The symbols of this process: Node is linked with the C library, glibc or musl.
    const self = koffi.load(null);
    return {
      getsockopt: self.func("int getsockopt(int fd, int level, int name, void *value, void *length)") as Libc["getsockopt"],
      flock: self.func("int flock(int fd, int operation)") as Libc["flock"],
      mallocTrim: optional(() => self.func("int malloc_trim(size_t pad)") as Libc["mallocTrim"]),
      mallopt: optional(() => self.func("int mallopt(int parameter, int value)") as Libc["mallopt"]),
      madvise: self.func("int madvise(uintptr_t start, size_t size, int advice)") as Libc["madvise"],
      pageBytes: (self.func("long sysconf(int name)") as (name: number) => number)(_SC_PAGESIZE),
      errno: () => koffi.errno(),
    };
  } catch (error) {
    throw new CoralError({ code: "unsupported", message: `Cannot ${what}: the native library "koffi" does not load here`, cause: error });
  }
}

function optional<T>(find: () => T): T | undefined {
  try {
    return find();
  } catch {
    // This C library lacks it.
    return undefined;
  }
}

/** SO_PEERCRED of a connected unix socket. */
export function peerCredentials(fd: number): PeerCredentials {
  const c = libc("read the peer of a socket");
  const value = Buffer.alloc(12);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(value.length);
  if (c.getsockopt(fd, SOL_SOCKET, SO_PEERCRED, value, length) !== 0) throw failed(`read the peer of descriptor ${fd}`, c.errno());
  return { pid: value.readInt32LE(0), uid: value.readUInt32LE(4), gid: value.readUInt32LE(8) };
}

/**
 * Takes the exclusive flock of an open file; false if another process (or another open of the file) holds it. The lock ends with the descriptor, also
 * when the process is killed.
 */
export function tryLockFile(fd: number): boolean {
  const c = libc("lock a file");
  for (;;) {
    if (c.flock(fd, LOCK_EX | LOCK_NB) === 0) return true;
    const errno = c.errno();
    if (errno === EWOULDBLOCK) return false;
    if (errno !== EINTR) throw failed(`lock descriptor ${fd}`, errno);
  }
}

/**
 * Returns free memory of the C library to the kernel; takes about a millisecond. The C library would keep it in the heap of each thread for as long as
 * one small allocation follows it. False if the C library has no such call.
 */
export function releaseFreeMemory(): boolean {
  const { mallocTrim } = libc("release memory");
  if (mallocTrim === undefined) return false;
  mallocTrim(0);
  return true;
}

/** The page size of this machine. */
export function memoryPageBytes(): number {
  return libc("read the page size").pageBytes;
}

/**
 * Drops pages of this process. The ranges must hold only unmodified bytes of a file: these are mapped again on their next use, without a disk read
 * while they are in the page cache. Anything else in a range is lost.
 */
export function dropMappedPages(ranges: readonly { start: number; sizeBytes: number }[]): void {
  const c = libc("release pages");
  // Refused for locked pages, which stay.
  for (const { start, sizeBytes } of ranges) c.madvise(start, sizeBytes, MADV_DONTNEED);
}

/**
 * Makes all threads share one heap of the C library: a daemon's threads allocate little, and each heap holds its own pages. Call it before threads
 * allocate. False if the C library has no such call.
 */
export function shareOneHeap(): boolean {
  return libc("share a heap").mallopt?.(M_ARENA_MAX, 1) === 1;
}

/**
 * Returns blocks of at least 1 MiB to the kernel as soon as they are freed. By default the C library raises this threshold up to 32 MiB as blocks are
 * freed, and keeps them in the heap of a thread. False if the C library has no such call.
 */
export function returnLargeBlocks(): boolean {
  const { mallopt } = libc("return memory");
  // A fixed threshold also fixes the trim threshold at 128 KiB, at which each request would return its memory and allocate it again.
  return mallopt?.(M_MMAP_THRESHOLD, largeBlockBytes) === 1 && mallopt(M_TRIM_THRESHOLD, keptFreeBytes) === 1;
}

function failed(what: string, errno: number): CoralError {
  return new CoralError({ code: "internal", message: `Cannot ${what}: the system call failed with errno ${errno}`, details: { errno } });
}
