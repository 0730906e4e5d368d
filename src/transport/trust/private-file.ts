/** Key and certificate files: 0600 in a 0700 directory, written whole or not at all. */

import { randomBytes } from "node:crypto";
import { lchown, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { CoralError } from "../../base/errors.ts";

/** Who is to own a file that root writes for a user (sudo). */
export interface FileOwner {
  uid: number;
  gid: number;
}

/** Replaces the file in one step and makes it durable. Makes missing directories, 0700. */
export async function writePrivateFile(path: string, content: string, owner?: FileOwner): Promise<void> {
  const directory = dirname(path);
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    const made = await mkdir(directory, { recursive: true, mode: 0o700 });
    if (made && owner) await lchown(directory, owner.uid, owner.gid);
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(content);
      if (owner) await file.chown(owner.uid, owner.gid);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    await syncDirectory(directory);
  } catch (error) {
    await rm(temporary, { force: true });
    const denied = error instanceof Error && "code" in error && /^(?:EACCES|EPERM|EROFS)$/.test(String(error.code));
    throw new CoralError({
      code: denied ? "not-permitted" : "unavailable",
      message: `Cannot write "${path}": ${messageOf(error)}`,
      cause: error,
      details: { path },
    });
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
