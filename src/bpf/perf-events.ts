/** A program that runs on every processor a number of times per second: one perf event of the CPU clock per processor. */

import type { BpfLink } from "./bpf-object.ts";
import type { Libbpf, Pointer } from "./libbpf.ts";

/** <linux/perf_event.h> */
const PERF_TYPE_SOFTWARE = 1;
const PERF_COUNT_SW_CPU_CLOCK = 0n;
const PERF_ATTR_SIZE = 128;
/** perf_event_attr.freq, the bit that makes the period a frequency. */
const PERF_ATTR_FREQ = 1n << 10n;
/** A possible processor that is not online. */
const ENODEV = 19;

/** perf_event_attr of the CPU clock, `hz` times per second of the wall clock. */
export function cpuClockAttributes(hz: number): Buffer {
  const attributes = Buffer.alloc(PERF_ATTR_SIZE);
  attributes.writeUInt32LE(PERF_TYPE_SOFTWARE, 0);
  attributes.writeUInt32LE(PERF_ATTR_SIZE, 4);
  attributes.writeBigUInt64LE(PERF_COUNT_SW_CPU_CLOCK, 8);
  attributes.writeBigUInt64LE(BigInt(hz), 16);
  attributes.writeBigUInt64LE(PERF_ATTR_FREQ, 40);
  return attributes;
}

/**
 * Attaches a program to all processors that are online; one that comes online later is not sampled. Returns null if the kernel refuses, with
 * nothing left attached; errno has the reason.
 */
export function attachCpuClock(libbpf: Libbpf, program: Pointer, hz: number): { link: BpfLink; processors: number } | { errno: number } {
  const attributes = cpuClockAttributes(hz);
  const links: Pointer[] = [];
  for (let cpu = 0; cpu < libbpf.possibleCpus(); cpu++) {
    const fd = libbpf.perfEventOpen(attributes, -1, cpu);
    if (fd < 0 && libbpf.errno() === ENODEV) continue;
    const link = fd < 0 ? null : libbpf.attachPerfEvent(program, fd);
    if (link === null) {
      const errno = libbpf.errno();
      // A link owns its descriptor.
      if (fd >= 0) libbpf.closeFd(fd);
      for (const attached of links) libbpf.destroyLink(attached);
      return { errno };
    }
    links.push(link);
  }
  let closing: Promise<unknown> | undefined;
  return {
    processors: links.length,
    link: {
      [Symbol.asyncDispose]: async () => {
        closing ??= Promise.all(links.map((link) => libbpf.destroyLinkAsync(link)));
        await closing;
      },
    },
  };
}
