import { expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
import { StoreWrites } from "./store-writes.ts";

const noSpace = new CoralError({ code: "unavailable", message: "no space left on sda1" });

type Transaction = Parameters<Parameters<ColonyStore["write"]>[0]>[0];

/** A store that takes writes or not, and the messages of the events in it. */
function setUp() {
  let nowMs = 0;
  const state = { isFull: false, events: [] as unknown[] };
  const writes = new StoreWrites({ clock: { wallMs: () => nowMs, monotonicMs: () => nowMs }, log: silentLogger });
  const write = async <T>(work: (transaction: Transaction) => Promise<T>): Promise<T> => {
    if (state.isFull) {
      writes.onWrite(noSpace);
      throw noSpace;
    }
    const run = (_sql: string, values: unknown): Promise<number> => {
      state.events.push((values as unknown[])[3]);
      return Promise.resolve(1);
    };
    const result = await work({ run } as unknown as Transaction);
    writes.onWrite(undefined);
    return result;
  };
  const after = async (ms: number): Promise<string> => {
    nowMs += ms;
    await writes.check({ write });
    return writes.problem;
  };
  return { writes, state, after };
}

it("keeps the failure of any write until one succeeds, and records when it began", async () => {
  const { writes, state, after } = setUp();
  expect(await after(1_000)).toBe("");
  state.isFull = true;
  writes.onWrite(noSpace);
  expect(await after(15_000)).toBe("no space left on sda1");
  state.isFull = false;
  expect(await after(5_000)).toBe("no space left on sda1");
  expect(await after(5_000)).toBe("");
  expect(state.events).toEqual(["The colony could not store rows since 1970-01-01T00:00:01.000Z: no space left on sda1"]);
});

it("a small write that still fits into the last block ends nothing", async () => {
  const { writes, after } = setUp();
  writes.onWrite(noSpace);
  writes.onWrite(undefined);
  expect(await after(9_000)).toBe("no space left on sda1");
});
