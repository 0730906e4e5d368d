/** Larger requests are allocated but not kept. */
const maxKeptBytes = 32 * 1024 * 1024;
const pageBytes = 4_096;

let kept = new ArrayBuffer(0);

/**
 * Reusable memory of this thread for sealing: first for parts of a write-ahead file until they are decoded, then for each page until it is
 * compressed. Valid until the next call. Not cleared.
 */
export function scratchBytes(sizeBytes: number): ArrayBuffer {
  if (sizeBytes <= kept.byteLength) return kept;
  const bytes = new ArrayBuffer(Math.ceil((sizeBytes * 1.125) / pageBytes) * pageBytes);
  if (bytes.byteLength <= maxKeptBytes) kept = bytes;
  return bytes;
}
