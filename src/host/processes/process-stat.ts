import { printable } from "../../base/escape-text.ts";
import { createHostRoot } from "../files/host-root.ts";

/** `/proc/<pid>/stat`: the facts that one cheap read gives for every process. */
export interface ProcessStat {
  pid: number;
  /** Together with pid an identity: start time since boot, clock ticks. */
  startTicks: number;
  /** At most 15 characters, chosen by the process. */
  name: string;
  /** One letter as in ps(1): R, S, D, Z, T, I. */
  state: string;
  /** User and system time since the start, clock ticks. */
  cpuTicks: number;
  majorFaults: number;
  threads: number;
  rssPages: number;
  isKernelThread: boolean;
}

const kernelThreadFlag = 0x0020_0000;

/** Null if the text is not such a file. The name is in parentheses and may itself contain blanks and parentheses. */
export function parseProcessStat(text: string): ProcessStat | null {
  const open = text.indexOf("(");
  const close = text.lastIndexOf(")");
  if (open < 2 || close < open) return null;
  const pid = Number(text.slice(0, open));
  // From here on, index 0 is the third field of proc(5).
  const fields = text.slice(close + 2).split(" ", 22);
  const state = fields[0] ?? "";
  if (!Number.isSafeInteger(pid) || pid <= 0 || fields.length < 22 || !/^[A-Za-z]$/.test(state)) return null;
  const [flags, majorFaults, userTicks, systemTicks, threads, startTicks, rssPages] = [6, 9, 11, 12, 17, 19, 21].map((index) =>
    Number(fields[index]),
  );
  const stat = {
    pid,
    startTicks: startTicks ?? Number.NaN,
    name: printable(text.slice(open + 1, close), 64),
    state,
    cpuTicks: (userTicks ?? Number.NaN) + (systemTicks ?? Number.NaN),
    majorFaults: majorFaults ?? Number.NaN,
    threads: threads ?? Number.NaN,
    // Signed in the kernel: may be slightly below zero for a moment.
    rssPages: Math.max(0, rssPages ?? Number.NaN),
    isKernelThread: Math.floor((flags ?? 0) / kernelThreadFlag) % 2 === 1,
  };
  const numbers = [stat.startTicks, stat.cpuTicks, stat.majorFaults, stat.threads, stat.rssPages];
  return numbers.every((value) => Number.isFinite(value) && value >= 0) ? stat : null;
}

/** One letter as in ps(1), such as `Z` for an unreaped process; undefined if there is no such process, or no /proc. */
export function processStateOf(pid: number): string | undefined {
  return parseProcessStat(createHostRoot("/").readText(`/proc/${pid}/stat`) ?? "")?.state;
}
