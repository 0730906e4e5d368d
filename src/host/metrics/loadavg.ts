import { fieldsOf, toCount } from "../files/kernel-text.ts";

/** Runnable and blocked threads, averaged by the kernel. */
export interface LoadAverage {
  load1m: number;
  load5m: number;
  load15m: number;
}

export function parseLoadAverage(text: string): LoadAverage {
  const fields = fieldsOf(text);
  return { load1m: toCount(fields[0]), load5m: toCount(fields[1]), load15m: toCount(fields[2]) };
}

/** `/proc/uptime`: seconds since boot. */
export function parseUptimeS(text: string): number {
  return toCount(fieldsOf(text)[0]);
}
