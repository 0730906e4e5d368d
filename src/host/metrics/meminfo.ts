import { toSafeInteger } from "../files/kernel-text.ts";

/** `/proc/meminfo`, in bytes. */
export interface MemInfo {
  totalBytes: number;
  freeBytes: number;
  /** What a new program could get without swapping; estimated before Linux 3.14. */
  availableBytes: number;
  /** Page cache, buffers and reclaimable slabs: the "buff/cache" of free(1). */
  cachedBytes: number;
  /** Waiting to be written to disk. */
  dirtyBytes: number;
  swapTotalBytes: number;
  swapUsedBytes: number;
}

export function parseMemInfo(text: string): MemInfo {
  const kib = new Map<string, number>();
  for (const match of text.matchAll(/^([A-Za-z_()0-9]+):\s+(\d+)(?: kB)?\s*$/gm)) kib.set(match[1] ?? "", Number(match[2]));
  const bytes = (name: string): number => toSafeInteger((kib.get(name) ?? 0) * 1024);
  const freeBytes = bytes("MemFree");
  const cachedBytes = bytes("Cached") + bytes("Buffers") + bytes("SReclaimable");
  const swapTotalBytes = bytes("SwapTotal");
  return {
    totalBytes: bytes("MemTotal"),
    freeBytes,
    // Shared memory is counted as cache but cannot be dropped.
    availableBytes: kib.has("MemAvailable") ? bytes("MemAvailable") : Math.max(freeBytes, freeBytes + cachedBytes - bytes("Shmem")),
    cachedBytes,
    dirtyBytes: bytes("Dirty"),
    swapTotalBytes,
    swapUsedBytes: Math.max(0, swapTotalBytes - bytes("SwapFree")),
  };
}
