import { missingCapabilities } from "../../bpf/index.ts";

/** What it takes to look into other users' processes. */
const readerCapabilities = ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"] as const;

/** Ends a note about processes that cannot be looked into: what to do, or that nothing can be done. `missing` is injectable for tests. */
export function whyHidden(missing: readonly string[] = missingCapabilities(readerCapabilities)): string {
  if (missing.length === 0) return "the processes are protected by the kernel or in another user namespace";
  return `run the agent as root or with ${missing.join(" and ")}`;
}

/** `1 process`, `2 processes`. */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${value} ${value === 1 ? one : many}`;
}
