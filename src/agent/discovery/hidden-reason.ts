import { missingCapabilities } from "../../bpf/index.ts";

/** Needed to inspect processes of other users. */
const readerCapabilities = ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"] as const;

/** The end of a note about processes that cannot be inspected: the fix, or why there is none. `missing` is injectable for tests. */
export function hiddenReason(missing: readonly string[] = missingCapabilities(readerCapabilities)): string {
  if (missing.length === 0) return "the kernel protects these processes, or they are in another user namespace";
  return `run the agent as root or with ${missing.join(" and ")}`;
}

/** `1 process`, `2 processes`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${value} ${value === 1 ? one : many}`;
}
