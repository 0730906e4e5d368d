import { open } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";

const pieceBytes = 1024 * 1024;

/** Bytes of a stored segment from an offset on, in pieces of 1 MiB. `not-found` when it is gone, or goes meanwhile. */
export async function* readSegmentFile(
  located: { path: string; sizeBytes: number } | undefined,
  wanted: { signal: string; number: number; offsetBytes: number },
): AsyncGenerator<Uint8Array, void, undefined> {
  const gone = (cause?: unknown): CoralError =>
    new CoralError({
      code: "not-found",
      message: `Cannot read segment ${wanted.number} of "${wanted.signal}": it is not there any more; list again`,
      cause,
    });
  if (located === undefined) throw gone();
  const handle = await open(located.path, "r").catch((error: unknown) => {
    throw gone(error);
  });
  try {
    for (let at = wanted.offsetBytes; at < located.sizeBytes; ) {
      const piece = Buffer.allocUnsafe(Math.min(pieceBytes, located.sizeBytes - at));
      const { bytesRead } = await handle.read(piece, 0, piece.length, at);
      if (bytesRead === 0) throw gone();
      at += bytesRead;
      yield piece.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
