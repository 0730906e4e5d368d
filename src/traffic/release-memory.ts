import { dropMappedPages, memoryPageBytes, releaseFreeMemory } from "../bpf/index.ts";
import { cleanCodeRanges } from "../host/index.ts";

/**
 * Gives back what this process holds and does not use: free memory of the C library, and code that ran once. Half of Node's is for its start, or never
 * used; what is needed again comes back in microseconds. Takes about 5 ms.
 */
export function releaseMemory(): void {
  releaseFreeMemory();
  dropMappedPages(cleanCodeRanges(memoryPageBytes()));
}
