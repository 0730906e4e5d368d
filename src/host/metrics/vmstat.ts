import { parseKeyValues } from "../files/kernel-text.ts";

/** `/proc/vmstat`: counters since boot. */
export interface VmStat {
  /** Pages read from swap. */
  swapInPages: number;
  /** Pages written to swap. */
  swapOutPages: number;
  /** Null before Linux 4.13, which does not count them. */
  oomKills: number | null;
}

export function parseVmStat(text: string): VmStat {
  const values = parseKeyValues(text, ["pswpin", "pswpout", "oom_kill"]);
  return { swapInPages: values.get("pswpin") ?? 0, swapOutPages: values.get("pswpout") ?? 0, oomKills: values.get("oom_kill") ?? null };
}
