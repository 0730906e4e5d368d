import { createHostRoot } from "../files/host-root.ts";
import { parseProcessStat } from "./process-stat.ts";

/** One letter as in ps(1), such as `Z` for an unreaped process; undefined if there is no such process, or no /proc. */
export function processStateOf(pid: number): string | undefined {
  return parseProcessStat(createHostRoot("/").readText(`/proc/${pid}/stat`) ?? "")?.state;
}
