import { expect, it, vi } from "vitest";
import type { Database, Transaction } from "../engine/database.ts";
import { host } from "../signals/host.ts";
import { resolutions } from "../tables/rollup.ts";
import type { SignalTables } from "./colony-tables.ts";
import { Rollups } from "./rollups.ts";

/** Two resolutions of one signal, over a fake database that has these rows and records what was merged. */
function setUp(row: { first: number | null; next: number | null }) {
  const merged = vi.fn<() => Promise<number>>(() => Promise.resolve(1));
  const transaction = { query: () => Promise.resolve([row]), run: merged } as unknown as Transaction;
  const database = {
    name: "colony",
    write: async (work: (transaction: Transaction) => Promise<unknown>, committed: (result: unknown) => void) => {
      const result = await work(transaction);
      committed(result);
      return result;
    },
  } as unknown as Database;
  const tables = new Map([
    ["host", { signal: host, rollups: resolutions.map((resolution) => ({ resolution })) } as unknown as SignalTables],
  ]);
  const progress = new Map<string, number>();
  const clock = { wallMs: () => 0, monotonicMs: () => 0 };
  return { rollups: new Rollups({ database, tables, clock, lastIngest: () => 7, lastIngestOf: () => 7 }, progress), merged, progress };
}

it("skips signals without new rows, and does not check them again", async () => {
  const { rollups, merged, progress } = setUp({ first: null, next: null });
  expect(await rollups.run(true)).toEqual({ partials: { host_1m: 0, host_10m: 0 } });
  expect(merged).not.toHaveBeenCalled();
  expect([...progress.values()]).toEqual([7, 7]);
});

it("merges new rows up to the last transaction", async () => {
  const { rollups, merged, progress } = setUp({ first: 3, next: null });
  expect(await rollups.run(true)).toEqual({ partials: { host_1m: 1, host_10m: 1 } });
  expect(merged).toHaveBeenCalledWith(expect.stringContaining("host_1m"), expect.objectContaining({ after: 0, ingest: 7 }));
  expect([...progress.values()]).toEqual([7, 7]);
});
