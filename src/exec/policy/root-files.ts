/** Files in a target's view: under `/`, or under the root of another process. Resolves symbolic links itself, so that none leads out of that root. */

import { closeSync, lstatSync, openSync, readlinkSync, readSync, type Stats, statSync } from "node:fs";
import { posix } from "node:path";

/** A file and whether others could replace it before it is executed. */
export interface ResolvedFile {
  /** Inside the root, with every link followed. */
  path: string;
  stats: Stats;
  /** Only the root's owner can change the file, any directory on the way to it, or any link that was followed. */
  isTrusted: boolean;
}

/** A read-only view. Paths inside it are relative to its root, whatever links say. */
export interface RootFiles {
  /** Path of the root on this machine; empty for `/`. */
  readonly prefix: string;
  /** The files cannot be read from here. */
  readonly isUnseen: boolean;
  /** Null if it does not exist or may not be inspected. The path must be absolute. */
  resolve(path: string): ResolvedFile | null;
  /** The file's first bytes; null when it cannot be read. */
  head(path: string, bytes: number): Buffer | null;
}

/** The kernel's limit, too: beyond 40 links it returns ELOOP. */
const maxLinks = 40;
/** Directories of a path. */
const maxComponents = 256;
/** w for group or others. */
const writableByOthers = 0o022;

/** `prefix` is the root of another process, see RootFiles.prefix; empty for this machine. */
export function createRootFiles(prefix = ""): RootFiles {
  const ownerUid = prefix === "" ? 0 : (attempt(() => statSync(`${prefix}/`).uid) ?? 0);
  const isSafe = ({ uid, mode }: Stats): boolean => (uid === 0 || uid === ownerUid) && (mode & writableByOthers) === 0;

  const resolve = (path: string): ResolvedFile | null => {
    if (!path.startsWith("/") || path.includes("\0")) return null;
    const waiting = path.split("/").reverse();
    const done: string[] = [];
    let links = 0;
    let stats = attempt(() => lstatSync(`${prefix}/`));
    if (stats === null) return null;
    let isTrusted = isSafe(stats);
    while (waiting.length > 0) {
      const name = waiting.pop() ?? "";
      if (name === "" || name === ".") continue;
      if (name === "..") {
        done.pop();
        continue;
      }
      // A name below something that is not a directory does not exist.
      if (stats !== null && done.length > 0 && !stats.isDirectory()) return null;
      const next: string = `/${[...done, name].join("/")}`;
      stats = attempt(() => lstatSync(prefix + next));
      if (stats === null || done.length > maxComponents) return null;
      if (!stats.isSymbolicLink()) {
        isTrusted &&= isSafe(stats);
        done.push(name);
        continue;
      }
      // A link's own mode is meaningless: its directory determines who may replace it, its owner who created it.
      isTrusted &&= stats.uid === 0 || stats.uid === ownerUid;
      const to = attempt(() => readlinkSync(prefix + next));
      if (to === null || ++links > maxLinks) return null;
      if (to.startsWith("/")) done.length = 0;
      waiting.push(...to.split("/").reverse());
      stats = null;
    }
    const real = `/${done.join("/")}`;
    const last = attempt(() => lstatSync(prefix + real));
    return last === null || last.isSymbolicLink() ? null : { path: real, stats: last, isTrusted };
  };

  return {
    prefix,
    isUnseen: false,
    resolve,
    head: (path, bytes) =>
      attempt(() => {
        const descriptor = openSync(prefix + path, "r");
        try {
          const buffer = Buffer.alloc(bytes);
          return buffer.subarray(0, readSync(descriptor, buffer, 0, bytes, 0));
        } finally {
          closeSync(descriptor);
        }
      }),
  };
}

/** Files that only a container runtime can access: programs are identified by name only. */
export const unseenFiles: RootFiles = { prefix: "", isUnseen: true, resolve: () => null, head: () => null };

/** The part of a path after its last slash. */
export function nameOfPath(path: string): string {
  return posix.basename(path);
}

function attempt<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    // Missing or not readable: either way it cannot be used. Anything else is a bug.
    if (error instanceof Error && "syscall" in error) return null;
    throw error;
  }
}
