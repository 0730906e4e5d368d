/** Files and directories of Coral: private (0700, 0600), written atomically, and owned by the invoking user even under sudo. */

import { randomBytes } from "node:crypto";
import { closeSync, constants, mkdirSync, openSync } from "node:fs";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { errnoOf, fileError } from "../../base/errors.ts";
import { type FileOwner, handOver, inDirectory, sudoOwner } from "../../base/open-owned.ts";

export type { FileOwner };
export { sudoOwner };

export interface WriteOptions {
  /** Default 0600. */
  mode?: number;
  /** Default: `sudoOwner()`. */
  owner?: FileOwner | undefined;
}

/** Creates the directory and its missing parents, each 0700 and owned by the user. Existing directories keep mode and owner. */
export async function makePrivateDirectory(path: string, owner: FileOwner | undefined = sudoOwner()): Promise<void> {
  if (owner) return makeOwnedDirectory(path, owner);
  const missing: string[] = [];
  for (let current = path; ; current = dirname(current)) {
    if (await isDirectory(current)) break;
    missing.unshift(current);
    if (dirname(current) === current) break;
  }
  for (const directory of missing) {
    try {
      await mkdir(directory, { mode: 0o700 });
    } catch (error) {
      // Another process may have created it since the check; that process sets the owner.
      if (errnoOf(error) === "EEXIST" && (await isDirectory(directory))) continue;
      throw fileError("create directory", directory, error);
    }
  }
}

/** As root in directories of another user: see `openOwned`. */
function makeOwnedDirectory(path: string, owner: FileOwner): void {
  const missing: string[] = [];
  let existing = path;
  for (; dirname(existing) !== existing; existing = dirname(existing)) {
    try {
      inDirectory(existing, () => undefined);
      break;
    } catch (error) {
      if (errnoOf(error) !== "ENOENT") throw fileError("use directory", existing, error);
      missing.unshift(basename(existing));
    }
  }
  for (const name of missing) {
    const directory = join(existing, name);
    try {
      inDirectory(existing, (parent) => makeOwned(`${parent}/${name}`, directory, owner));
    } catch (error) {
      throw fileError("create directory", directory, error);
    }
    existing = directory;
  }
}

function makeOwned(at: string, path: string, owner: FileOwner): void {
  try {
    mkdirSync(at, { mode: 0o700 });
  } catch (error) {
    // Another process may have created it since the check; that process sets the owner.
    if (errnoOf(error) === "EEXIST") return;
    throw error;
  }
  const descriptor = openSync(at, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    handOver(path, descriptor, owner);
  } finally {
    closeSync(descriptor);
  }
}

/** Replaces the file atomically: a crash leaves the old or the new content. Creates missing directories. */
export async function writePrivateFile(path: string, content: string | Uint8Array, options: WriteOptions = {}): Promise<void> {
  const owner = "owner" in options ? options.owner : sudoOwner();
  const mode = options.mode ?? 0o600;
  await makePrivateDirectory(dirname(path), owner);
  if (!owner) return await replaceFile(dirname(path), path, content, mode, owner);
  await inDirectory(dirname(path), (directory) => replaceFile(directory, path, content, mode, owner));
}

async function replaceFile(
  directory: string,
  path: string,
  content: string | Uint8Array,
  mode: number,
  owner: FileOwner | undefined,
): Promise<void> {
  const temporary = join(directory, `.${basename(path)}.${randomBytes(6).toString("hex")}`);
  try {
    const file = await open(temporary, "wx", mode);
    try {
      await file.writeFile(content);
      // The umask may have cleared bits.
      await file.chmod(mode);
      if (owner) await file.chown(owner.uid, owner.gid);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, join(directory, basename(path)));
  } catch (error) {
    await rm(temporary, { force: true });
    throw fileError("write", path, error);
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return false;
    throw fileError("stat", path, error);
  }
}
