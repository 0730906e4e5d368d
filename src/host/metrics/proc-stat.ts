import { fieldsOf, toCount } from "../files/kernel-text.ts";

/** CPU time by kind since boot, clock ticks. `user` includes guests; older kernels leave the last fields out, which reads as 0. */
export interface CpuTicks {
  user: number;
  nice: number;
  system: number;
  idle: number;
  iowait: number;
  irq: number;
  softirq: number;
  steal: number;
}

/** `/proc/stat`: counters since boot, and two gauges. */
export interface ProcStat {
  total: CpuTicks;
  /** By core number; cores that are offline are absent. */
  cores: Map<number, CpuTicks>;
  contextSwitches: number;
  forks: number;
  /** Runnable threads now, including the reader of the file. */
  processesRunning: number;
  /** Threads that wait for I/O without being interruptible, now. */
  processesBlocked: number;
}

const maxCores = 4096;

function parseTicks(fields: string[]): CpuTicks {
  return {
    user: toCount(fields[1]),
    nice: toCount(fields[2]),
    system: toCount(fields[3]),
    idle: toCount(fields[4]),
    iowait: toCount(fields[5]),
    irq: toCount(fields[6]),
    softirq: toCount(fields[7]),
    steal: toCount(fields[8]),
  };
}

export function parseProcStat(text: string): ProcStat {
  const result: ProcStat = {
    total: parseTicks([]),
    cores: new Map(),
    contextSwitches: 0,
    forks: 0,
    processesRunning: 0,
    processesBlocked: 0,
  };
  for (const line of text.split("\n")) {
    if (line.startsWith("cpu")) {
      const fields = fieldsOf(line);
      const core = /^cpu(\d{1,6})$/.exec(fields[0] ?? "")?.[1];
      if (fields[0] === "cpu") result.total = parseTicks(fields);
      else if (core !== undefined && result.cores.size < maxCores) result.cores.set(Number(core), parseTicks(fields));
    } else if (line.startsWith("ctxt ")) result.contextSwitches = toCount(line.slice(5));
    else if (line.startsWith("processes ")) result.forks = toCount(line.slice(10));
    else if (line.startsWith("procs_running ")) result.processesRunning = toCount(line.slice(14));
    else if (line.startsWith("procs_blocked ")) result.processesBlocked = toCount(line.slice(14));
  }
  return result;
}
