import { describe, expect, it } from "vitest";
import { HealthTracker, silenceBeforeRestartMs } from "./agent-health.ts";

const thresholds = { degradedAfterMs: 45_000, unhealthyAfterMs: 120_000 };

describe("HealthTracker", () => {
  it("evaluate() keeps an agent healthy through eight missed pulls", () => {
    const tracker = new HealthTracker(thresholds, 0);
    expect(tracker.evaluate(44_999)).toBe("healthy");
  });

  it("evaluate() steps down to degraded, then unhealthy", () => {
    const tracker = new HealthTracker(thresholds, 0);
    expect(tracker.evaluate(45_000)).toBe("degraded");
    expect(tracker.evaluate(119_999)).toBe("degraded");
    expect(tracker.evaluate(120_000)).toBe("unhealthy");
  });

  it("contact() needs three contacts in a row before an unhealthy agent is healthy", () => {
    const tracker = new HealthTracker(thresholds, 0);
    tracker.evaluate(200_000);
    tracker.contact(200_000);
    expect(tracker.evaluate(200_000)).toBe("degraded");
    tracker.contact(205_000);
    expect(tracker.evaluate(205_000)).toBe("degraded");
    tracker.contact(210_000);
    expect(tracker.evaluate(210_000)).toBe("healthy");
  });

  it("contact() starts counting again after another silence", () => {
    const tracker = new HealthTracker(thresholds, 0);
    tracker.contact(130_000);
    tracker.contact(135_000);
    tracker.contact(185_000);
    expect(tracker.evaluate(185_000)).toBe("degraded");
  });

  it("a contact every 40 s, just inside the threshold, never flickers in an hour", () => {
    const tracker = new HealthTracker(thresholds, 0);
    const seen = new Set<string>();
    for (let nowMs = 0; nowMs < 3_600_000; nowMs += 1_000) {
      if (nowMs % 40_000 === 0) tracker.contact(nowMs);
      seen.add(tracker.evaluate(nowMs));
    }
    expect([...seen]).toEqual(["healthy"]);
  });
});

describe("silenceBeforeRestartMs()", () => {
  it("does not count the colony's own downtime as an agent's silence", () => {
    expect(silenceBeforeRestartMs(1_000_000, 1_000_000)).toBe(0);
    expect(silenceBeforeRestartMs(900_000, 1_000_000)).toBe(100_000);
  });
});
