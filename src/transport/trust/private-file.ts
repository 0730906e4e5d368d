/** Key and certificate files: 0600 in a 0700 directory, written atomically. */

import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileError } from "../../base/errors.ts";
import { type FileOwner, handOver, inDirectory } from "../../base/open-owned.ts";

export type { FileOwner };

/** Replaces the file atomically and durably. Creates missing directories with mode 0700. */
export async function writePrivateFile(path: string, content: string, owner?: FileOwner): Promise<void> {
  try {
    await makeDirectory(dirname(path), owner);
    // If another user owns the file, that user's links are not followed; see `openOwned`.
    if (owner) await inDirectory(dirname(path), (directory) => replaceFile(directory, basename(path), content, owner));
    else await replaceFile(dirname(path), basename(path), content);
  } catch (error) {
    throw fileError("write", path, error);
  }
}

/** Creates missing directories one by one, because each must belong to `owner`. */
async function makeDirectory(path: string, owner: FileOwner | undefined): Promise<void> {
  if (owner === undefined) {
    await mkdir(path, { recursive: true, mode: 0o700 });
    return;
  }
  try {
    await inDirectory(dirname(path), (parent) => mkdir(`${parent}/${basename(path)}`, { mode: 0o700 }));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return;
    if (code !== "ENOENT" || dirname(path) === path) throw error;
    await makeDirectory(dirname(path), owner);
    return await makeDirectory(path, owner);
  }
  inDirectory(path, (directory) => {
    const descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      handOver(path, descriptor, owner);
    } finally {
      closeSync(descriptor);
    }
  });
}

/** Writes a temporary file, syncs it, and renames it, so that readers see the old or the new file, never a part. */
async function replaceFile(directory: string, name: string, content: string, owner?: FileOwner): Promise<void> {
  const temporary = join(directory, `${name}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(content);
      if (owner) await file.chown(owner.uid, owner.gid);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, join(directory, name));
    await syncDirectory(directory);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** A rename survives a power cut only after its directory is written too. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
