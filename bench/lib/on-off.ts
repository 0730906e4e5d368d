/** CPU of a server per request with something switched on and off in turns, under one constant load: what is beside it slows neighbours alike. */

import { setTimeout as sleep } from "node:timers/promises";
import type { WebServer } from "./web-servers.ts";

export interface Variant {
  name: string;
  on(): Promise<void>;
  off(): Promise<void>;
}

export interface OnOff {
  /** Microseconds per request in the turns around, without anything. */
  offUs: number[];
  onUs: number[];
  /** To the mean of the two turns around it. */
  ratios: number[];
  addedUs: number[];
}

export interface OnOffOptions {
  server: WebServer;
  variants: readonly Variant[];
  /** Results of each variant. */
  slices: number;
  /** What a slice is the mean of: times that a variant was on, with all variants in turns. Short turns see the same neighbours on and off. Default 1. */
  turns?: number;
  /** Of one turn; there is one without anything before and after each. */
  sliceMs: number;
}

/** After a switch, before it counts. */
const settleMs = 40;

/** The load must run already. */
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
