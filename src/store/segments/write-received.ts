/** Writes a segment's bytes from an agent to a file. */

import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import { releaseBytes } from "../../base/release-bytes.ts";
import type { SegmentOffer } from "./plan-segments.ts";

/** Small chunks are collected: a write costs as much as copying about 10 kB. */
const writeBytesAtOnce = 1024 * 1024;

/**
 * Writes, hashes and syncs at most as many bytes as were offered. Takes ownership of the chunks. Throws `corrupt` if they differ from the
 * offer.
 */
export async function writeReceived(
  file: string,
  bytes: AsyncIterable<Uint8Array>,
  { sizeBytes, sha256 }: Pick<SegmentOffer, "sizeBytes" | "sha256">,
): Promise<void> {
  const hash = createHash("sha256");
  let received = 0;
  const handle: FileHandle = await open(file, "w", 0o600);
  try {
    // Writes some chunks while the next ones arrive and are hashed.
    let writing: Promise<void> = Promise.resolve();
    let parts: Uint8Array[] = [];
    let waiting = 0;
    const write = async (): Promise<void> => {
      const [group, sizeOfGroup] = [parts, waiting];
      [parts, waiting] = [[], 0];
      await writing;
      writing = writeParts(handle, group, sizeOfGroup);
      // A failure surfaces at the next await; until then it must not count as unhandled.
      writing.catch(() => undefined);
    };
    for await (const part of bytes) {
      received += part.length;
      if (received > sizeBytes) throw differs(`received more than ${sizeBytes} bytes`);
      hash.update(part);
      parts.push(part);
      waiting += part.length;
      if (waiting >= writeBytesAtOnce) await write();
    }
    await write();
    await writing;
    if (received !== sizeBytes) throw differs(`received ${received} of ${sizeBytes} bytes`);
    if (hash.digest("hex") !== sha256) throw differs("their hash differs");
    await handle.datasync();
  } finally {
    await handle.close();
  }
}

async function writeParts(handle: FileHandle, parts: Uint8Array[], sizeBytes: number): Promise<void> {
  if (sizeBytes === 0) return;
  const { bytesWritten } = await handle.writev(parts);
  // A short write, as on a nearly full disk: writing the rest reveals the error.
  if (bytesWritten < sizeBytes) await handle.writeFile(Buffer.concat(parts).subarray(bytesWritten));
  parts.forEach(releaseBytes);
}

function differs(why: string): CoralError {
  return new CoralError({ code: "corrupt", message: `Cannot accept a segment: its bytes differ from the offer (${why})` });
}
