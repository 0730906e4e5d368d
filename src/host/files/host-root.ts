/** The file system of the observed host. Everything in this room reads through it, so that a fixture directory can stand in for a machine. */

import { closeSync, type Dirent, openSync, readdirSync, readlinkSync, readSync, type Stats, statSync } from "node:fs";

/** What could not be read during one scan; reported with query results. */
export interface ReadTally {
  /** EACCES or EPERM: the agent lacks permission. */
  denied: number;
  /** Gone between listing and reading; normal for processes. */
  vanished: number;
  /** Any other failure, such as EOPNOTSUPP of a disabled kernel feature. */
  failed: number;
  /** Truncated at the byte limit. */
  truncated: number;
}

export function createReadTally(): ReadTally {
  return { denied: 0, vanished: 0, failed: 0, truncated: 0 };
}

export interface FileFacts {
  sizeBytes: number;
  linkCount: number;
  userId: number;
  device: number;
  inode: number;
  modifiedMs: number;
  /** False for directories, devices and pipes. */
  isFile: boolean;
}

/**
 * Small synchronous reads: a `/proc` file costs about 10 µs this way, and several times that through promises.
 * Null means "missing or not readable"; the tally counts the reason. Callers yield between groups of reads.
 */
export interface HostRoot {
  /** Absolute path of the root, `/` on a real host. */
  readonly path: string;
  /**
   * The process whose view of mounts and network counts as the host's: `/proc/self` under `/`; under another root (the host's file systems
   * mounted into a container) that host's first process.
   */
  readonly viewpoint: string;
  /** The calling thread's own entry: a thread may be in another namespace than its process. */
  readonly threadView: string;
  /** The path on this machine of an absolute path on the host. */
  resolve(path: string): string;
  readText(path: string, tally?: ReadTally, maxBytes?: number): string | null;
  /** The first bytes of a file: a view that the next read overwrites. For small files that are read for every process. */
  readBytes(path: string, tally?: ReadTally): Buffer | null;
  /** Passes the file in chunks, each a view that the next one overwrites, until `wantsMore` returns false. False if it could not be read. */
  readPieces(path: string, wantsMore: (piece: Buffer) => boolean, tally?: ReadTally): boolean;
  /** Returns what `use` returns for the open file, then closes it. */
  withOpen<T>(path: string, use: (descriptor: number) => T, tally?: ReadTally): T | null;
  list(path: string, tally?: ReadTally): string[] | null;
  listDirectories(path: string, tally?: ReadTally): string[] | null;
  readLink(path: string, tally?: ReadTally): string | null;
  stat(path: string, tally?: ReadTally): FileFacts | null;
}

/** Maximum size of a readBytes result. */
export const bufferBytes = 64 * 1024;
const defaultMaxBytes = 4 * 1024 * 1024;

function count(tally: ReadTally | undefined, error: unknown): null {
  // A bug in a caller's callback, not an error of the file system.
  if (!(error instanceof Error && "syscall" in error)) throw error;
  const code = "code" in error ? error.code : undefined;
  if (!tally) return null;
  if (code === "EACCES" || code === "EPERM") tally.denied++;
  else if (code === "ENOENT" || code === "ESRCH" || code === "ENOTDIR") tally.vanished++;
  else tally.failed++;
  return null;
}

/** `/proc` files are read until end of file: a kernel seq_file returns about a page per call, for any buffer size. */
function readWhole(path: string, shared: Buffer, maxBytes: number, tally: ReadTally | undefined): string {
  const descriptor = openSync(path, "r");
  try {
    let buffer = shared;
    let length = 0;
    for (;;) {
      if (length >= maxBytes) {
        if (tally) tally.truncated++;
        break;
      }
      if (length === buffer.length) {
        const larger = Buffer.allocUnsafe(buffer.length * 2);
        buffer.copy(larger, 0, 0, length);
        buffer = larger;
      }
      const readBytes = readSync(descriptor, buffer, length, Math.min(buffer.length, maxBytes) - length, null);
      if (readBytes === 0) break;
      length += readBytes;
    }
    return buffer.toString("utf8", 0, length);
  } finally {
    closeSync(descriptor);
  }
}

function withOpen<T>(path: string, use: (descriptor: number) => T): T {
  const descriptor = openSync(path, "r");
  try {
    return use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function factsOf(stats: Stats): FileFacts {
  return {
    sizeBytes: stats.size,
    linkCount: stats.nlink,
    userId: stats.uid,
    device: stats.dev,
    inode: stats.ino,
    modifiedMs: stats.mtimeMs,
    isFile: stats.isFile(),
  };
}

/** `root` defaults to `/`. */
export function createHostRoot(root = "/"): HostRoot {
  const prefix = root === "/" ? "" : root.replace(/\/+$/, "");
  const shared = Buffer.allocUnsafe(bufferBytes);
  const resolve = (path: string): string => prefix + path;
  const attempt = <T>(tally: ReadTally | undefined, read: () => T): T | null => {
    try {
      return read();
    } catch (error) {
      // Files under /proc come and go, and some are not readable: both are expected results.
      return count(tally, error);
    }
  };
  const isDirectory = (entry: Dirent): boolean => entry.isDirectory();
  const host: HostRoot = {
    path: prefix === "" ? "/" : prefix,
    viewpoint: "/proc/self",
    threadView: "/proc/thread-self",
    resolve,
    readText: (path, tally, maxBytes = defaultMaxBytes) => attempt(tally, () => readWhole(resolve(path), shared, maxBytes, tally)),
    readBytes: (path, tally) =>
      attempt(tally, () =>
        withOpen(resolve(path), (descriptor) => shared.subarray(0, readSync(descriptor, shared, 0, shared.length, null))),
      ),
    readPieces: (path, wantsMore, tally) =>
      attempt(tally, () =>
        withOpen(resolve(path), (descriptor) => {
          for (;;) {
            const readBytes = readSync(descriptor, shared, 0, shared.length, null);
            if (readBytes === 0 || !wantsMore(shared.subarray(0, readBytes))) return true;
          }
        }),
      ) ?? false,
    withOpen: (path, use, tally) => attempt(tally, () => withOpen(resolve(path), use)),
    list: (path, tally) => attempt(tally, () => readdirSync(resolve(path))),
    listDirectories: (path, tally) =>
      attempt(tally, () =>
        readdirSync(resolve(path), { withFileTypes: true })
          .filter(isDirectory)
          .map((entry) => entry.name),
      ),
    // Inlined: a scan reads tens of thousands of links.
    readLink: (path, tally) => {
      try {
        return readlinkSync(prefix + path);
      } catch (error) {
        // As above: an expected result.
        return count(tally, error);
      }
    },
    stat: (path, tally) => attempt(tally, () => factsOf(statSync(resolve(path)))),
  };
  const viewpoint = prefix !== "" && host.stat("/proc/1/mountinfo") !== null ? "/proc/1" : "/proc/self";
  return { ...host, viewpoint };
}
