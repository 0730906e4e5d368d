import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";
import { fieldsOf, toCount } from "../files/kernel-text.ts";

/** One block device, counters since boot. The kernel prints the millisecond counters as 32-bit numbers: they wrap after weeks. */
export interface DiskCounters {
  device: string;
  reads: number;
  readBytes: number;
  readMs: number;
  writes: number;
  writtenBytes: number;
  writeMs: number;
  /** Time with at least one request in flight. */
  busyMs: number;
  /** Time in flight, summed over requests. */
  weightedMs: number;
}

export interface DiskScan {
  disks: DiskCounters[];
  /** Devices above the limit. */
  cut: number;
}

/** Sectors of the kernel's statistics are always 512 bytes, independent of the device. */
const sectorBytes = 512;
const maxDisks = 256;
/** Virtual devices of which hosts have many, mostly unused. */
const oftenIdle = /^(?:loop|ram|zram|nbd|sr|fd)\d+$/;
/** For hosts without /sys: sda1, vda2, nvme0n1p3, mmcblk0p1, md0p1. */
const partitionName = /^(?:(?:sd|hd|vd|xvd)[a-z]+\d+|(?:nvme\d+n\d+|mmcblk\d+|md\d+|nbd\d+|loop\d+)p\d+)$/;

/** `wholeDevices` are the names in /sys/block; null when that cannot be read, and names decide. */
export function parseDiskStats(text: string, wholeDevices: ReadonlySet<string> | null): DiskScan {
  const disks: DiskCounters[] = [];
  let cut = 0;
  for (const line of text.split("\n")) {
    const fields = fieldsOf(line);
    const name = fields[2];
    // Fewer fields are partitions of kernels before 2.6.25.
    if (name === undefined || fields.length < 14) continue;
    if (wholeDevices ? !wholeDevices.has(name.replaceAll("/", "!")) : partitionName.test(name)) continue;
    const reads = toCount(fields[3]);
    const writes = toCount(fields[7]);
    if (reads === 0 && writes === 0 && oftenIdle.test(name)) continue;
    if (disks.length >= maxDisks) {
      cut++;
      continue;
    }
    disks.push({
      device: printable(name, 64),
      reads,
      readBytes: toCount(fields[5]) * sectorBytes,
      readMs: toCount(fields[6]),
      writes,
      writtenBytes: toCount(fields[9]) * sectorBytes,
      writeMs: toCount(fields[10]),
      busyMs: toCount(fields[12]),
      weightedMs: toCount(fields[13]),
    });
  }
  return { disks, cut };
}

export function readDisks(root: HostRoot): DiskScan {
  const names = root.list("/sys/block");
  return parseDiskStats(root.readText("/proc/diskstats") ?? "", names && names.length > 0 ? new Set(names) : null);
}
