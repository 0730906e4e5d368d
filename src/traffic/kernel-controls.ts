/** What user space tells the programs in the kernel while they run: `struct controls` of probes/connection.h. */

import type { BpfMap } from "../probes/index.ts";
import { ladderSteps } from "./ladder.ts";
import { type TrafficProtocol, trafficProtocols } from "./messages.ts";

export const controlsLayout = {
  sizeBytes: 16,
  nextConnection: 0,
  sampleMask: 4,
  skippedProtocols: 8,
  capturing: 12,
} as const;

/** Protocols whose requests the kernel counts by itself. */
const countedInKernel: ReadonlySet<TrafficProtocol> = new Set(["http", "redis", "postgres", "tls"]);
/** One connection in eight. */
const sampleMask = 7;
/** The kernel numbers connections in the same structure. Between reading and writing it may go on; far ahead, no number is given twice. */
const aheadOfKernel = 1 << 16;

export interface Controls {
  sampleMask: number;
  /** One bit for each protocol, numbered from 1 on as in `trafficProtocols`. */
  skippedProtocols: number;
  /** Whether `capture_targets` holds anything. Default: as it was. */
  isCapturing?: boolean;
}

/** What a step of the ladder means for the kernel. `disabled` protocols are left out at every step. */
export function controlsOf(step: number, disabled: readonly TrafficProtocol[]): Controls {
  const isSampled = step >= ladderSteps.indexOf("sampled-connections");
  const isKernelOnly = step >= ladderSteps.indexOf("kernel-only");
  let skippedProtocols = 0;
  for (const [index, protocol] of trafficProtocols.entries()) {
    if (disabled.includes(protocol) || (isKernelOnly && !countedInKernel.has(protocol))) skippedProtocols |= 1 << (index + 1);
  }
  return { sampleMask: isSampled ? sampleMask : 0, skippedProtocols };
}

export function writeControls(map: BpfMap, { sampleMask: mask, skippedProtocols, isCapturing }: Controls): void {
  const key = Buffer.alloc(4);
  const value = Buffer.alloc(map.valueBytes);
  map.lookup(key, value);
  value.writeUInt32LE((value.readUInt32LE(controlsLayout.nextConnection) + aheadOfKernel) >>> 0, controlsLayout.nextConnection);
  value.writeUInt32LE(mask, controlsLayout.sampleMask);
  value.writeUInt32LE(skippedProtocols, controlsLayout.skippedProtocols);
  if (isCapturing !== undefined) value.writeUInt32LE(isCapturing ? 1 : 0, controlsLayout.capturing);
  map.update(key, value);
}
