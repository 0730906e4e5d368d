/** The file system of the observed host. Everything in this room reads through it, so that a fixture directory can stand in for a machine. */

import { closeSync, type Dirent, openSync, readdirSync, readlinkSync, readSync, statSync } from "node:fs";

/** What could not be read during one scan, so that an answer can say so. */
export interface ReadTally {
  /** EACCES or EPERM: the agent may not look. */
  denied: number;
  /** Gone between listing and reading; normal for processes. */
  vanished: number;
  /** Any other failure, such as EOPNOTSUPP of a switched-off kernel feature. */
  failed: number;
  /** Cut at the byte limit. */
  truncated: number;
}

export function createReadTally(): ReadTally {
  return { denied: 0, vanished: 0, failed: 0, truncated: 0 };
}

export interface FileFacts {
  sizeBytes: number;
  linkCount: number;
}

/**
 * Small synchronous reads: one `/proc` file costs about 10 µs this way and several times that through promises.
 * Null is "not there or not readable"; the reason is counted in the tally. Callers yield between groups of reads.
 */
export interface HostRoot {
  /** Absolute path of the root, `/` on a real host. */
  readonly path: string;
  /**
   * The process whose view of mounts and network counts as the host's: `/proc/self` under `/`; under another root (the host's file systems
   * mounted into a container) that host's first process.
   */
  readonly viewpoint: string;
  /** Where `path`, absolute on the host, is on this machine. */
  resolve(path: string): string;
  readText(path: string, tally?: ReadTally, maxBytes?: number): string | null;
  /** Hands over the file piece by piece until `wantsMore` says no. False when the file could not be opened or read. */
  readWhile(path: string, wantsMore: (piece: string) => boolean, tally?: ReadTally): boolean;
  list(path: string, tally?: ReadTally): string[] | null;
  listDirectories(path: string, tally?: ReadTally): string[] | null;
  readLink(path: string, tally?: ReadTally): string | null;
  stat(path: string, tally?: ReadTally): FileFacts | null;
}

const bufferBytes = 64 * 1024;
const defaultMaxBytes = 4 * 1024 * 1024;

function count(tally: ReadTally | undefined, error: unknown): null {
  if (!tally) return null;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "EACCES" || code === "EPERM") tally.denied++;
  else if (code === "ENOENT" || code === "ESRCH" || code === "ENOTDIR") tally.vanished++;
  else tally.failed++;
  return null;
}

/** `/proc` files are read until end of file: a kernel seq_file returns about a page per call, whatever the size of the buffer. */
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

function readPieces(path: string, shared: Buffer, wantsMore: (piece: string) => boolean): void {
  const descriptor = openSync(path, "r");
  try {
    for (;;) {
      const readBytes = readSync(descriptor, shared, 0, shared.length, null);
      if (readBytes === 0 || !wantsMore(shared.toString("latin1", 0, readBytes))) return;
    }
  } finally {
    closeSync(descriptor);
  }
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
      // Files under /proc come and go, and some are not ours to read: both are answers, not failures.
      return count(tally, error);
    }
  };
  const isDirectory = (entry: Dirent): boolean => entry.isDirectory();
  const host: HostRoot = {
    path: prefix === "" ? "/" : prefix,
    viewpoint: "/proc/self",
    resolve,
    readText: (path, tally, maxBytes = defaultMaxBytes) => attempt(tally, () => readWhole(resolve(path), shared, maxBytes, tally)),
    readWhile: (path, wantsMore, tally) =>
      attempt(tally, () => {
        readPieces(resolve(path), shared, wantsMore);
        return true;
      }) ?? false,
    list: (path, tally) => attempt(tally, () => readdirSync(resolve(path))),
    listDirectories: (path, tally) =>
      attempt(tally, () =>
        readdirSync(resolve(path), { withFileTypes: true })
          .filter(isDirectory)
          .map((entry) => entry.name),
      ),
    readLink: (path, tally) => attempt(tally, () => readlinkSync(resolve(path))),
    stat: (path, tally) =>
      attempt(tally, () => {
        const stats = statSync(resolve(path));
        return { sizeBytes: stats.size, linkCount: stats.nlink };
      }),
  };
  const viewpoint = prefix !== "" && host.stat("/proc/1/mountinfo") !== null ? "/proc/1" : "/proc/self";
  return { ...host, viewpoint };
}
