import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import type { Incident, IncidentSymptom } from "../../model/incident.ts";
import type { Breach } from "../../tools/index.ts";
import { IncidentTracker, type Progress } from "./incident-tracker.ts";

const startMs = Date.UTC(2026, 0, 5, 12);
const stepMs = 10_000;
const closeAfterMs = 120_000;

const breachOf = (changes: Partial<Breach> = {}): Breach => ({
  ...{ service: "shop", route: "GET /buy", measure: "errors", severity: "critical", isDeclared: false },
  ...{ usual: 0, limit: 0.05, now: 0.4, message: "GET /buy fails 40%", startedMs: startMs },
  ...changes,
});

type Reading = { value: number | null; isBad: boolean } | null;
const good = (): Reading => ({ value: 0, isBad: false });

/** A tracker with a fake clock: each step opens confirmed incidents, like the watch without causes. */
class Run {
  readonly tracker = new IncidentTracker(() => ({ closeAfterMs }));
  nowMs = startMs;
  opened: Incident[] = [];
  closed: Incident[] = [];

  step(breaches: Breach[], read: (symptom: IncidentSymptom) => Reading = good): Progress {
    this.nowMs += stepMs;
    const progress = this.tracker.observe({ nowMs: this.nowMs, breaches, read });
    for (const ready of progress.ready) this.opened.push(this.tracker.start(ready, this.nowMs));
    this.closed.push(...progress.closed);
    return progress;
  }

  steps(forMs: number, breaches: Breach[], read?: (symptom: IncidentSymptom) => Reading): void {
    for (const endMs = this.nowMs + forMs; this.nowMs < endMs; ) this.step(breaches, read);
  }
}

describe("opening", () => {
  it("opens an incident for a critical breach at once, and for a warning once it repeats", () => {
    const critical = new Run();
    critical.step([breachOf()]);
    expect(critical.opened).toMatchObject([{ number: 1, state: "open", severity: "critical", startedMs: startMs }]);
    const warning = new Run();
    warning.step([breachOf({ severity: "warning" })]);
    expect(warning.opened).toEqual([]);
    warning.step([breachOf({ severity: "warning" })]);
    expect(warning.opened).toMatchObject([{ severity: "warning" }]);
  });

  it("forgets a warning that does not repeat", () => {
    const run = new Run();
    for (let round = 0; round < 20; round++) {
      run.step([breachOf({ severity: "warning" })]);
      run.steps(70_000, []);
    }
    expect(run.opened).toEqual([]);
  });

  it("groups all breaches of one service into one incident", () => {
    const run = new Run();
    run.step([breachOf(), breachOf({ route: "GET /shop", measure: "latency" })]);
    run.step([breachOf(), breachOf({ route: "GET /cart", message: "GET /cart fails" })]);
    expect(run.opened).toHaveLength(1);
    expect(run.opened[0]?.symptoms.map(({ route }) => route)).toEqual(["GET /buy", "GET /shop", "GET /cart"]);
    expect(run.opened[0]?.timeline.map(({ kind }) => kind)).toEqual(["started", "opened", "symptom"]);
  });

  it("opens one incident per service", () => {
    const run = new Run();
    run.step([breachOf(), breachOf({ service: "search" })]);
    expect(run.opened.map(({ number, symptoms }) => [number, symptoms[0]?.service])).toEqual([
      [1, "shop"],
      [2, "search"],
    ]);
  });
});

describe("closing", () => {
  it("closes after all indicators stayed within limits long enough, with the time of the recovery", () => {
    const run = new Run();
    run.steps(60_000, [breachOf(), breachOf({ route: "GET /shop" })]);
    const lastBadMs = run.nowMs;
    run.steps(closeAfterMs, []);
    expect(run.closed).toEqual([]);
    run.step([]);
    expect(run.closed).toMatchObject([{ state: "closed", endedMs: lastBadMs, closedMs: run.nowMs }]);
    expect(run.closed[0]?.timeline.map(({ kind }) => kind)).toEqual(["started", "opened", "recovered", "closed"]);
  });

  it("stays open while one indicator exceeds its limit, even without reported breaches", () => {
    const run = new Run();
    run.step([breachOf(), breachOf({ route: "GET /shop" })]);
    const read = ({ route }: IncidentSymptom): Reading => ({ value: 0.1, isBad: route === "GET /shop" });
    run.steps(1_800_000, [], read);
    expect(run.closed).toEqual([]);
  });

  it("stays open while indicators are unknown, and closes after 15 minutes without requests", () => {
    const run = new Run();
    run.step([breachOf()]);
    run.steps(14 * 60_000, [], () => null);
    expect(run.closed).toEqual([]);
    run.steps(2 * 60_000, [], () => null);
    expect(run.closed[0]?.timeline.at(-1)?.text).toContain("no requests for 15m");
  });
});

describe("hysteresis", () => {
  it("keeps one incident for an intermittent fault", () => {
    const run = new Run();
    for (let round = 0; round < 30; round++) {
      run.steps(60_000, [breachOf()]);
      run.steps(90_000, []);
    }
    expect(run.opened).toHaveLength(1);
    expect(run.closed).toEqual([]);
    expect(run.opened[0]?.timeline.length).toBeLessThanOrEqual(60);
  });

  it("reopens an incident that recurs soon after closing, and opens a new one later", () => {
    const run = new Run();
    run.step([breachOf()]);
    run.steps(closeAfterMs + 300_000, []);
    expect(run.closed).toHaveLength(1);
    run.step([breachOf()]);
    expect(run.opened).toHaveLength(1);
    expect(run.tracker.open).toMatchObject([{ number: 1, state: "open", closedMs: null }]);
    run.steps(closeAfterMs + 900_000, []);
    run.step([breachOf()]);
    expect(run.opened.map(({ number }) => number)).toEqual([1, 2]);
  });

  it("opens few incidents for random noise, and never two for one service at a time", () => {
    const random = new SeededRandom(18);
    const run = new Run();
    for (let step = 0; step < 8_640; step++) {
      run.step(random.below(100) === 0 ? [breachOf({ severity: "warning" })] : []);
      expect(run.tracker.open.length).toBeLessThanOrEqual(1);
    }
    // Two warnings within a minute are rare, and recurrences belong to the same incident.
    expect(run.opened.length).toBeLessThan(10);
  });
});

describe("merging and restarts", () => {
  it("merges the younger incident into the older one, with its symptoms", () => {
    const run = new Run();
    run.step([breachOf()]);
    run.step([breachOf(), breachOf({ service: "admin", route: "GET /orders" })]);
    const [whole, part] = run.opened;
    if (!whole || !part) throw new Error("two incidents were expected");
    run.tracker.merge(part, whole, run.nowMs);
    expect(part).toMatchObject({ state: "merged", mergedInto: 1, closedMs: run.nowMs });
    expect(whole.symptoms.map(({ service }) => service)).toEqual(["shop", "admin"]);
    run.step([breachOf({ service: "admin", route: "GET /orders" })]);
    expect(run.opened).toHaveLength(2);
    expect(run.tracker.open).toEqual([whole]);
  });

  it("resumes with stored incidents after a restart", () => {
    const before = new Run();
    before.step([breachOf()]);
    const stored = JSON.parse(JSON.stringify(before.tracker.open)) as Incident[];
    const after = new Run();
    after.tracker.load(stored, 5);
    after.step([breachOf()]);
    expect(after.opened).toEqual([]);
    after.steps(closeAfterMs + stepMs, []);
    expect(after.closed).toMatchObject([{ number: 1, state: "closed" }]);
    after.step([breachOf({ service: "search" })]);
    expect(after.opened).toMatchObject([{ number: 6 }]);
  });
});
