/** Settings that user space changes while BPF programs run: `struct controls` of probes/requests/connection.h. */

import type { BpfMap } from "../../bpf/index.ts";
import { protocolNumber, protocolsCountedInKernel, type TrafficProtocol, trafficProtocols } from "../../model/protocols.ts";
import { ladderSteps } from "../core/budget-ladder.ts";

export const controlsLayout = {
  sizeBytes: 40,
  nextConnection: 0,
  sampleMask: 4,
  skippedProtocols: 8,
  capturing: 12,
  streamBytes: 16,
  disabledProtocols: 20,
  generation: 24,
  tlsUnbound: 28,
  longSends: 32,
  hiddenReads: 36,
} as const;

/** One connection in eight. */
const sampleMask = 7;
/** Enough for the head of a request in most protocols; requests that need more count as undecoded. */
const shortBytes = 256;
/** The kernel counts connections in the same structure, also between our read and write. The jump ahead keeps it from reusing a number. */
const aheadOfKernel = 1 << 16;

export interface Controls {
  sampleMask: number;
  /** One bit for each protocol, at its `protocolNumber`. */
  skippedProtocols: number;
  /** As `skippedProtocols`, but not counted as `sampled-out`. */
  disabledProtocols: number;
  /** At most this many bytes of a payload go to the ring; 0: as many as its protocol needs. */
  streamBytes: number;
  /** Whether `capture_targets` has entries. Default: unchanged. */
  isCapturing?: boolean;
}

/** Controls for a step of the budget ladder. `disabled` protocols are skipped at every step. */
export function controlsOf(step: number, disabled: readonly TrafficProtocol[]): Controls {
  const isReached = (name: (typeof ladderSteps)[number]): boolean => step >= ladderSteps.indexOf(name);
  return {
    sampleMask: isReached("sampled-connections") ? sampleMask : 0,
    skippedProtocols: isReached("kernel-only") ? bitsOf(trafficProtocols.filter((protocol) => !protocolsCountedInKernel.has(protocol))) : 0,
    disabledProtocols: bitsOf(disabled),
    streamBytes: isReached("short-records") ? shortBytes : 0,
  };
}

function bitsOf(protocols: readonly TrafficProtocol[]): number {
  return protocols.reduce((bits, protocol) => bits | (1 << protocolNumber(protocol)), 0);
}

export function writeControls(map: BpfMap, controls: Controls): void {
  const { skippedProtocols, disabledProtocols, streamBytes, isCapturing } = controls;
  change(map, (value) => {
    value.writeUInt32LE(controls.sampleMask, controlsLayout.sampleMask);
    value.writeUInt32LE(skippedProtocols, controlsLayout.skippedProtocols);
    value.writeUInt32LE(disabledProtocols, controlsLayout.disabledProtocols);
    value.writeUInt32LE(streamBytes, controlsLayout.streamBytes);
    if (isCapturing !== undefined) value.writeUInt32LE(isCapturing ? 1 : 0, controlsLayout.capturing);
  });
}

/** Invalidates state of connections: which names were emitted (`generation`), or which socket a TLS object is bound to (`tlsUnbound`). */
export function incrementControl(map: BpfMap, number: "generation" | "tlsUnbound"): void {
  const at = controlsLayout[number];
  change(map, (value) => value.writeUInt32LE((value.readUInt32LE(at) + 1) >>> 0, at));
}

/**
 * Flags that the programs set. `longSends`: a client has sent so much at once that only a hook at the start of a send can time it. `hiddenReads`: a
 * client reads replies through calls that only a hook inside TCP sees.
 */
export function readFindings(map: BpfMap): { longSends: boolean; hiddenReads: boolean } {
  const value = Buffer.alloc(controlsLayout.sizeBytes);
  map.lookup(Buffer.alloc(4), value);
  const isSet = (at: number): boolean => value.readUInt32LE(at) !== 0;
  return { longSends: isSet(controlsLayout.longSends), hiddenReads: isSet(controlsLayout.hiddenReads) };
}

function change(map: BpfMap, write: (value: Buffer) => void): void {
  const key = Buffer.alloc(4);
  const value = Buffer.alloc(controlsLayout.sizeBytes);
  map.lookup(key, value);
  value.writeUInt32LE((value.readUInt32LE(controlsLayout.nextConnection) + aheadOfKernel) >>> 0, controlsLayout.nextConnection);
  write(value);
  map.update(key, value);
}
