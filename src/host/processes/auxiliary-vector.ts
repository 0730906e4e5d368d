import { readFileSync } from "node:fs";
import { endianness } from "node:os";

/** Units of the numbers in `/proc/<pid>/stat`. */
export interface KernelUnits {
  /** 4096 on x86; 16 or 64 KiB on some arm64 and ppc64 kernels. */
  pageBytes: number;
  /** 100 on almost every machine. */
  ticksPerS: number;
}

/** AT_PAGESZ and AT_CLKTCK of getauxval(3). */
const pageSizeKey = 6n;
const clockTicksKey = 17n;

/** Pairs of machine words; 64-bit machines only, which is all that Node 20 runs on besides 32-bit ARM. */
export function parseAuxiliaryVector(bytes: Buffer, order: "LE" | "BE" = endianness()): KernelUnits {
  const units = { pageBytes: 4096, ticksPerS: 100 };
  const word = (offset: number): bigint => (order === "LE" ? bytes.readBigUInt64LE(offset) : bytes.readBigUInt64BE(offset));
  for (let offset = 0; offset + 16 <= Math.min(bytes.length, 4096); offset += 16) {
    const value = Number(word(offset + 8));
    if (word(offset) === pageSizeKey && value >= 1024 && value <= 2 ** 24) units.pageBytes = value;
    if (word(offset) === clockTicksKey && value >= 10 && value <= 100_000) units.ticksPerS = value;
  }
  return units;
}

/** Of the running kernel, also when the host's files are read under another root. */
export function readKernelUnits(): KernelUnits {
  try {
    return parseAuxiliaryVector(readFileSync("/proc/self/auxv"));
  } catch {
    // Without /proc nothing else in this room works either; the usual values keep the caller simple.
    return { pageBytes: 4096, ticksPerS: 100 };
  }
}
