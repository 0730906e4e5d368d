/** CPU of a server per request, with a variant switched on and off in turns under constant load, so that noise affects adjacent turns equally. */

import { setTimeout as sleep } from "node:timers/promises";
import type { WebServer } from "./web-servers.ts";

/** One side of the comparison. */
export interface Variant {
  name: string;
  on(): Promise<void>;
  off(): Promise<void>;
}

export interface OnOff {
  /** Microseconds per request in the adjacent turns with everything off. */
  offUs: number[];
  onUs: number[];
  /** Relative to the mean of the two adjacent turns. */
  ratios: number[];
  addedUs: number[];
}

export interface OnOffOptions {
  server: WebServer;
  variants: readonly Variant[];
  /** Results per variant. */
  slices: number;
  /** Turns per variant averaged into one slice, variants interleaved. Short turns see the same noise on and off. Default 1. */
  turns?: number;
  /** Duration of one turn; each is preceded and followed by one with everything off. */
  sliceMs: number;
}

/** Settling time after a switch, not measured. */
const settleMs = 40;

/** The load must already be running. */
export async function measureOnOff({ server, variants, slices, turns = 1, sliceMs }: OnOffOptions): Promise<Map<string, OnOff>> {
  const results = new Map(variants.map(({ name }) => [name, { offUs: [], onUs: [], ratios: [], addedUs: [] } as OnOff]));
  const turn = async (): Promise<number> => {
    await sleep(settleMs);
    const before = await server.usage();
    await sleep(sliceMs);
    const after = await server.usage();
    return (after.cpuNs - before.cpuNs) / (after.answered - before.answered) / 1_000;
  };
  let before = await turn();
  for (let slice = 0; slice < slices; slice++) {
    const sums = variants.map((variant) => ({ variant, onUs: 0, offUs: 0 }));
    for (let index = 0; index < turns; index++) {
      for (const sum of sums) {
        await sum.variant.on();
        sum.onUs += await turn();
        await sum.variant.off();
        const after = await turn();
        sum.offUs += (before + after) / 2;
        before = after;
      }
    }
    for (const { variant, onUs, offUs } of sums) add(results.get(variant.name), onUs / turns, offUs / turns);
  }
  return results;
}

function add(result: OnOff | undefined, onUs: number, offUs: number): void {
  result?.offUs.push(offUs);
  result?.onUs.push(onUs);
  result?.ratios.push(onUs / offUs);
  result?.addedUs.push(onUs - offUs);
}
