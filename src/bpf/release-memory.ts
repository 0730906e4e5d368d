import { dropMappedPages, memoryPageBytes, releaseFreeMemory } from "./libc.ts";

/**
 * Returns unused memory to the kernel: free memory of the C library, and pages of code that ran once. Half of Node's code is used at start-up or
 * never; a page that is needed again is back within microseconds. Takes about 5 ms. `cleanCode`: parts of mapped files that hold only bytes of these.
 */
export function releaseMemory(cleanCode: (pageBytes: number) => Parameters<typeof dropMappedPages>[0]): void {
  releaseFreeMemory();
  dropMappedPages(cleanCode(memoryPageBytes()));
}
