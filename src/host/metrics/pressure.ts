import type { HostRoot } from "../files/host-root.ts";

/** Stall time since boot of one resource, microseconds (PSI). Null if this kernel does not report it. */
export interface PressureTotals {
  /** At least one task waited. */
  someUs: number | null;
  /** All tasks waited. */
  fullUs: number | null;
}

export interface Pressure {
  cpu: PressureTotals;
  memory: PressureTotals;
  io: PressureTotals;
}

export function parsePressure(text: string): PressureTotals {
  const total = (kind: string): number | null => {
    const match = new RegExp(`^${kind} .*\\btotal=(\\d+)\\s*$`, "m").exec(text);
    return match ? Number(match[1]) : null;
  };
  return { someUs: total("some"), fullUs: total("full") };
}

/** Absent files (before Linux 4.20, or CONFIG_PSI off) and EOPNOTSUPP (booted with psi=0) both give nulls. */
export function readPressure(root: HostRoot): Pressure {
  const read = (name: string): PressureTotals => parsePressure(root.readText(`/proc/pressure/${name}`) ?? "");
  return { cpu: read("cpu"), memory: read("memory"), io: read("io") };
}
