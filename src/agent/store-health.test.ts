import { beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import { createLogger } from "../base/log.ts";
import { StoreHealth, type StoreHealthOptions } from "./store-health.ts";

type EventRow = Parameters<StoreHealthOptions["append"]>[0];

const noSpace = new CoralError({ code: "unavailable", message: "no space left on sda1", details: { failure: "no-space" } });

let nowMs: number;
let rows: EventRow[];
let isFull: boolean;
let health: StoreHealth;

describe("StoreHealth", () => {
  beforeEach(() => {
    nowMs = 1_000;
    rows = [];
    isFull = false;
    health = new StoreHealth({
      append: (row) => {
        if (isFull) {
          health.refused("agent_event", noSpace);
          return Promise.reject(noSpace);
        }
        rows.push(row);
        return Promise.resolve();
      },
      clock: { ...systemClock, wallMs: () => nowMs, monotonicMs: () => nowMs },
      log: createLogger("test", "error", () => undefined),
    });
  });

  it("reports a problem from the first refusal to the next stored row, and records both times", async () => {
    health.refused("host", noSpace);
    nowMs = 5_000;
    health.refused("host", noSpace);
    expect(health.problem).toBe("no space left on sda1");
    nowMs = 9_000;
    await health.stored("host");
    expect(health.problem).toBe("");
    expect(rows).toMatchObject([
      {
        kind: "store-write-failed",
        severity: "error",
        message: "The agent could not store rows since 1970-01-01T00:00:01.000Z: no space left on sda1",
        details: JSON.stringify({ fromMs: 1_000, untilMs: 9_000 }),
      },
    ]);
    await health.stored("host");
    expect(rows).toHaveLength(1);
  });

  it("reports one interruption when its event does not fit on the disk either", async () => {
    health.refused("host", noSpace);
    nowMs = 5_000;
    isFull = true;
    await health.stored("host");
    expect(health.problem).toBe("no space left on sda1");
    nowMs = 9_000;
    isFull = false;
    await health.stored("agent_event");
    expect(rows.map(({ details }) => details)).toEqual([JSON.stringify({ fromMs: 1_000, untilMs: 9_000 })]);
  });

  it("keeps reporting while some signals still fit into the last block and others do not", async () => {
    health.refused("host", noSpace);
    await health.stored("agent_event");
    expect(health.problem).toBe("no space left on sda1");
    // A signal whose rows are rare: after a while any stored row shows that there is space again.
    nowMs = 11_000;
    await health.stored("agent_event");
    expect(health.problem).toBe("");
    expect(rows).toHaveLength(1);
  });

  it("does not report a full queue, a bad row or a closed store as a disk problem", () => {
    health.refused("host", new CoralError({ code: "exhausted", message: "20000 of 20000 rows are already queued" }));
    health.refused("host", new CoralError({ code: "invalid", message: "bad row", details: { failure: "statement" } }));
    health.refused("host", new CoralError({ code: "unavailable", message: "the store is closed" }));
    expect(health.problem).toBe("");
    health.refused("host", new CoralError({ code: "corrupt", message: "checksum" }));
    expect(health.problem).toBe("checksum");
  });

  it("records a replaced store", async () => {
    await health.replaced({ how: "existing" });
    await health.replaced({ how: "recovered", reason: "checksum", movedTo: "/data/agent.duckdb.damaged-1", keptCheckpoint: false });
    expect(rows).toMatchObject([{ kind: "store-damaged", message: expect.stringContaining("/data/agent.duckdb.damaged-1") }]);
  });
});
