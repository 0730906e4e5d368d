import { describe, expect, it } from "vitest";
import { systemClock } from "../base/clock.ts";
import type { ColonyStore } from "../store/index.ts";
import type { ToolCallContext } from "../tools/index.ts";
import { createTraceBackend } from "./trace-backend.ts";

const context: ToolCallContext = { signal: new AbortController().signal };

describe("createTraceBackend()", () => {
  it("asks the store once for the same edges at the same time, again later, and again after a failure", async () => {
    let asked = 0;
    let failure: Error | undefined;
    let nowMs = 0;
    const segments = {
      segmentSource: async () => {
        asked++;
        if (failure) throw failure;
        return { sql: "", files: 0, rows: 0 };
      },
    };
    const store = { segments } as unknown as ColonyStore;
    const backend = createTraceBackend({ store, clock: { ...systemClock, monotonicMs: () => nowMs } });
    const ask = (sinceMs: number) => backend.spanEdges({ sinceMs }, context);
    await Promise.all([ask(1_000), ask(1_000), ask(1_000)]);
    expect(asked).toBe(1);
    await ask(2_000);
    expect(asked).toBe(2);
    nowMs = 3_000;
    await ask(1_000);
    expect(asked).toBe(3);
    nowMs = 6_000;
    failure = new Error("broken");
    await expect(ask(1_000)).rejects.toThrow("broken");
    failure = undefined;
    await ask(1_000);
    expect(asked).toBe(5);
  });

  it("keeps few answers", async () => {
    let asked = 0;
    const segments = { segmentSource: async () => ({ sql: String(asked++), files: 0, rows: 0 }) };
    const backend = createTraceBackend({ store: { segments } as unknown as ColonyStore, clock: { ...systemClock, monotonicMs: () => 0 } });
    for (let sinceMs = 0; sinceMs < 100; sinceMs++) await backend.spanEdges({ sinceMs }, context);
    await backend.spanEdges({ sinceMs: 0 }, context);
    expect(asked).toBe(101);
  });
});
