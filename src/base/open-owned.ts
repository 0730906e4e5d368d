/**
 * Opens files as root in directories of another user (sudo). That user can replace any name by a symbolic link at any time. So paths are
 * walked by descriptor, one name at a time, and no link of that user is followed: it could make root create, overwrite or give away other
 * files.
 */

import { closeSync, constants, fchownSync, fstatSync, lstatSync, openSync, readFileSync, readlinkSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { CoralError } from "./errors.ts";

export interface FileOwner {
  uid: number;
  gid: number;
}

const maxLinks = 40;
const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** Opens with `flags` of open(2). With an owner, follows only symbolic links made by root, and gives the file to the owner. */
export function openOwned(path: string, flags: number, mode: number, owner: FileOwner | undefined): number {
  if (owner === undefined) return openSync(path, flags, mode);
  const descriptor = inDirectory(dirname(path), (directory) => openAt(path, `${directory}/${basename(path)}`, flags, mode));
  try {
    handOver(path, descriptor, owner);
    return descriptor;
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/** Reads a file. With an owner, follows only symbolic links made by root, because errors may quote the content. */
export function readOwned(path: string, owner: FileOwner | undefined): Buffer {
  if (owner === undefined) return readFileSync(path);
  const descriptor = inDirectory(dirname(path), (directory) => openAt(path, `${directory}/${basename(path)}`, constants.O_RDONLY, 0));
  try {
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Changes the owner of an open file or directory, unless it may be someone else's: another hard link may be anywhere. */
export function handOver(path: string, descriptor: number, owner: FileOwner): void {
  const found = fstatSync(descriptor);
  if (found.uid === owner.uid) return;
  const isOurs = found.uid === process.geteuid?.() && (found.isDirectory() || found.nlink === 1);
  if (!isOurs) throw refused(path, "it belongs to another user, or has several hard links");
  fchownSync(descriptor, owner.uid, owner.gid);
}

/** Calls `work` with a path that stays this directory until `work` ends, whatever is renamed meanwhile. */
export function inDirectory<T>(path: string, work: (directory: string) => T): T {
  const descriptor = openDirectory(path);
  let result: T | undefined;
  try {
    result = work(`/proc/self/fd/${descriptor}`);
  } finally {
    if (!(result instanceof Promise)) closeSync(descriptor);
  }
  return result instanceof Promise ? (result.finally(() => closeSync(descriptor)) as T) : result;
}

function openDirectory(path: string): number {
  let names = resolve(path).split("/").filter(Boolean);
  let descriptor = openSync("/", directoryFlags);
  try {
    for (let links = 0; names.length > 0; ) {
      const name = names.shift() as string;
      const at = `/proc/self/fd/${descriptor}/${name}`;
      const found = lstatSync(at);
      if (found.isSymbolicLink()) {
        // Root's own links, such as /var/run, are trusted.
        if (found.uid !== 0 || ++links > maxLinks) throw refused(path, `"${name}" is a symbolic link`);
        const target = readlinkSync(at);
        names = [...target.split("/").filter((part) => part !== "" && part !== "."), ...names];
        if (!target.startsWith("/")) continue;
      }
      const next = openSync(found.isSymbolicLink() ? "/" : at, directoryFlags);
      closeSync(descriptor);
      descriptor = next;
    }
    return descriptor;
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function openAt(path: string, at: string, flags: number, mode: number): number {
  try {
    // O_NONBLOCK: do not block on a FIFO of that name.
    return openSync(at, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, mode);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ELOOP") throw refused(path, "it is a symbolic link");
    throw error;
  }
}

function refused(path: string, reason: string): CoralError {
  return new CoralError({
    code: "not-permitted",
    message: `Cannot use "${path}" as root: ${reason}; remove it, or start without sudo`,
    details: { path },
  });
}

/** The user who invoked sudo, if this process runs as root because of it; otherwise undefined. */
export function sudoOwner(
  env: Readonly<Record<string, string | undefined>> = process.env,
  effectiveUid: number | undefined = process.geteuid?.(),
): FileOwner | undefined {
  if (effectiveUid !== 0) return undefined;
  const uid = idOf(env["SUDO_UID"]);
  const gid = idOf(env["SUDO_GID"]);
  if (uid === undefined || gid === undefined || uid === 0) return undefined;
  return { uid, gid };
}

function idOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}
