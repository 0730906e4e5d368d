/** Read-only file mappings of this process, mostly machine code. Their pages can be released, because the kernel re-reads them from the file. */

import { closeSync, openSync, readFileSync, readSync } from "node:fs";

export interface AddressRange {
  start: number;
  sizeBytes: number;
}

/** Smaller ranges are not worth a system call. */
const minRangeBytes = 64 * 1024;
const entryBytes = 8;
const entriesPerRead = 4096;
/** Bits of an entry of pagemap, in its upper half. */
const present = 0x8000_0000;
const swapped = 0x4000_0000;
const ofFile = 0x2000_0000;

/**
 * Parts of private read-only mappings of files, without pages that differ from their file: those were written before the mapping became read-only
 * (relocations by the dynamic linker), or by a debugger. Empty where the kernel does not report it. `pageBytes`: page size of this machine.
 */
export function cleanCodeRanges(pageBytes: number): AddressRange[] {
  let pagemap: number;
  let maps: string;
  try {
    maps = readFileSync("/proc/self/maps", "latin1");
    pagemap = openSync("/proc/self/pagemap", "r");
  } catch {
    // A kernel without it, or no /proc: release nothing.
    return [];
  }
  try {
    const read = (into: Buffer, offset: number): number => readSync(pagemap, into, 0, into.length, offset);
    return readOnlyMappings(maps).flatMap((mapping) => cleanPartsOf(mapping, pageBytes, read));
  } finally {
    closeSync(pagemap);
  }
}

/** Exported for tests. Takes the text of `/proc/<pid>/maps`. */
export function readOnlyMappings(maps: string): AddressRange[] {
  const ranges: AddressRange[] = [];
  for (const [, from = "", to = ""] of maps.matchAll(/^([0-9a-f]+)-([0-9a-f]+) r-[x-]p [0-9a-f]+ \S+ [1-9]\d* +\/.*$/gm)) {
    const start = Number.parseInt(from, 16);
    const sizeBytes = Number.parseInt(to, 16) - start;
    if (sizeBytes >= minRangeBytes && Number.isSafeInteger(start + sizeBytes)) ranges.push({ start, sizeBytes });
  }
  return ranges;
}

/** Exported for tests. `read` returns bytes of `/proc/<pid>/pagemap`; pages it does not cover are kept. */
export function cleanPartsOf(mapping: AddressRange, pageBytes: number, read: (into: Buffer, offset: number) => number): AddressRange[] {
  const parts: AddressRange[] = [];
  const pages = Math.floor(mapping.sizeBytes / pageBytes);
  const buffer = Buffer.alloc(Math.min(pages, entriesPerRead) * entryBytes);
  let from = 0;
  const endPart = (page: number): void => {
    const sizeBytes = (page - from) * pageBytes;
    if (sizeBytes >= minRangeBytes) parts.push({ start: mapping.start + from * pageBytes, sizeBytes });
    from = page + 1;
  };
  for (let first = 0; first < pages; first += entriesPerRead) {
    const count = Math.min(pages - first, entriesPerRead);
    const got = Math.floor(read(buffer.subarray(0, count * entryBytes), (mapping.start / pageBytes + first) * entryBytes) / entryBytes);
    for (let index = 0; index < got; index++) {
      const bits = buffer.readUInt32LE(index * entryBytes + 4);
      const isOwn = (bits & swapped) !== 0 || ((bits & present) !== 0 && (bits & ofFile) === 0);
      if (isOwn) endPart(first + index);
    }
    if (got < count) {
      endPart(first + got);
      return parts;
    }
  }
  endPart(pages);
  return parts;
}
