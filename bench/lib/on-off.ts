/** CPU of a server per request with something switched on and off in turns, under one constant load: what is beside it slows neighbours alike. */

import { setTimeout as sleep } from "node:timers/promises";
import type { WebServer } from "./web-servers.ts";

export interface Variant {
  name: string;
  on(): Promise<void>;
  off(): Promise<void>;
}

export interface OnOff {
  /** Microseconds per request in the slices around, without anything. */
  offUs: number[];
  onUs: number[];
  /** To the mean of the two slices around it. */
  ratios: number[];
  addedUs: number[];
}

export interface OnOffOptions {
  server: WebServer;
  variants: readonly Variant[];
  /** Slices of each variant; there is one without anything before and after each. */
  slices: number;
  sliceMs: number;
}

/** After a switch, before it counts. */
const settleMs = 40;

/** The load must run already. */
export async function measureOnOff({ server, variants, slices, sliceMs }: OnOffOptions): Promise<Map<string, OnOff>> {
  const results = new Map(variants.map(({ name }) => [name, { offUs: [], onUs: [], ratios: [], addedUs: [] } as OnOff]));
  const slice = async (): Promise<number> => {
    await sleep(settleMs);
    const before = await server.usage();
    await sleep(sliceMs);
    const after = await server.usage();
    return (after.cpuNs - before.cpuNs) / (after.answered - before.answered) / 1_000;
  };
  let before = await slice();
  for (let round = 0; round < slices; round++) {
    for (const variant of variants) {
      await variant.on();
      const on = await slice();
      await variant.off();
      const after = await slice();
      const off = (before + after) / 2;
      const result = results.get(variant.name);
      result?.offUs.push(off);
      result?.onUs.push(on);
      result?.ratios.push(on / off);
      result?.addedUs.push(on - off);
      before = after;
    }
  }
  return results;
}
