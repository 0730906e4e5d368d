/** More is given when it is needed, but not kept. */
const maxKeptBytes = 32 * 1024 * 1024;
const pageBytes = 4_096;

let kept = new ArrayBuffer(0);

/**
 * Memory of this thread that is used again and again while segments are made: first for parts of a write-ahead file until they are decoded, then for each
 * page until it is compressed. Good until the next call, and not cleared.
 */
export function scratchBytes(sizeBytes: number): ArrayBuffer {
  if (sizeBytes <= kept.byteLength) return kept;
  const bytes = new ArrayBuffer(Math.ceil((sizeBytes * 1.125) / pageBytes) * pageBytes);
  if (bytes.byteLength <= maxKeptBytes) kept = bytes;
  return bytes;
}
