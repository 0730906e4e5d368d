import { describe, expect, it } from "vitest";
import type { BuildFacts } from "../../model/deployments.ts";
import { compareBuilds, verdictOf } from "./compare-builds.ts";
import { percentileUs } from "./route-blocks.ts";
import { type Simulation, simulate, untilMs } from "./simulated-service.fixture.ts";

const minuteMs = 60_000;
const looks = [2, 5, 15, 30].map((minutes) => minutes * minuteMs);

const routes = [
  { subject: "GET /users/{id}", requestsPerCell: 60, medianUs: 8_000, spread: 0.5, errorShare: 0.002 },
  { subject: "POST /orders", requestsPerCell: 20, medianUs: 40_000, spread: 0.7, errorShare: 0.01 },
  { subject: "GET /health", requestsPerCell: 2, medianUs: 300, spread: 0.2, errorShare: 0 },
];

/** Like the colony: repeated looks, keeping the first with a result. */
function judge(facts: BuildFacts) {
  const reports = looks.map((afterMs) => compareBuilds(untilMs(facts, afterMs), looks.length));
  return { reports, verdicts: reports.map(verdictOf), last: reports.at(-1)! };
}

const of = (more: Partial<Simulation> & { seed: number }) => judge(simulate({ routes, ...more }));

describe("compareBuilds()", { timeout: 120_000 }, () => {
  it("finds a route that is 40 % slower in nearly all of 50 runs, and names that route only", () => {
    let [found, others] = [0, 0];
    for (let seed = 1; seed <= 50; seed++) {
      const { last } = of({ seed, change: { slower: 1.4, only: "GET /users/{id}" } });
      const worse = last.changes.filter(({ outcome }) => outcome === "worse");
      if (worse.some(({ metric, subject }) => metric === "p95" && subject === "GET /users/{id}")) found++;
      if (worse.some(({ subject }) => subject !== "GET /users/{id}")) others++;
    }
    expect(found).toBeGreaterThanOrEqual(47);
    expect(others).toBeLessThanOrEqual(1);
  });

  it("reports how much slower, with an effect size", () => {
    const { last, verdicts } = of({ seed: 7, change: { slower: 1.5 } });
    const p95 = last.changes.find(({ metric, subject }) => metric === "p95" && subject === "POST /orders");
    expect(verdicts.at(-1)).toBe("regression");
    expect(p95).toMatchObject({ outcome: "worse", unit: "us" });
    expect(p95!.after / p95!.before).toBeGreaterThan(1.35);
    expect(p95!.after / p95!.before).toBeLessThan(1.65);
    expect(p95!.effect).toBeGreaterThan(0.2);
    expect(p95!.pValue).toBeLessThan(last.alpha);
  });

  it("finds a slowdown of only a few requests", () => {
    const { last } = of({ seed: 8, change: { tail: 0.06, only: "GET /users/{id}" } });
    expect(last.changes.map(({ metric, outcome }) => `${metric} ${outcome}`)).toContain("p95 worse");
    expect(last.changes.map(({ metric }) => metric)).not.toContain("p50");
  });

  it("finds a doubling at the first look", () => {
    let early = 0;
    for (let seed = 1; seed <= 20; seed++) if (of({ seed, change: { slower: 2 } }).verdicts[0] === "regression") early++;
    expect(early).toBeGreaterThanOrEqual(18);
  });

  it("finds failures, and improvements", () => {
    const failing = of({ seed: 9, change: { errorShare: 0.03, only: "GET /users/{id}" } });
    expect(failing.last.changes[0]).toMatchObject({ metric: "errors", subject: "GET /users/{id}", outcome: "worse" });
    expect(failing.last.changes[0]?.after).toBeCloseTo(0.03, 2);
    expect(of({ seed: 10, change: { slower: 0.7 } }).verdicts.at(-1)).toBe("improvement");
  });

  it("keeps its false alarm rate over all looks at 60 deployments that change nothing", () => {
    const alarms = { steady: 0, wandering: 0 };
    const quieter = routes.map((route) => ({ ...route, requestsPerCell: route.requestsPerCell / 3 }));
    for (let seed = 1; seed <= 60; seed++) {
      const isAlarm = (simulation: Simulation): boolean =>
        judge(simulate(simulation)).verdicts.some((verdict) => verdict === "regression" || verdict === "improvement");
      if (isAlarm({ seed, routes: quieter, wander: { spread: 0, remains: 0 } })) alarms.steady++;
      if (isAlarm({ seed: 1_000 + seed, routes: quieter, wander: { spread: 0.15, remains: 0.95 } })) alarms.wandering++;
    }
    // The nominal rate is one in a hundred; `npm run bench deployments` simulates more.
    expect(alarms.steady).toBeLessThanOrEqual(2);
    expect(alarms.wandering).toBeLessThanOrEqual(2);
  });

  it("finds a slower p95 even where durations are nearly constant", () => {
    const even = [{ subject: "GET /", requestsPerCell: 40, medianUs: 10_000, spread: 0.01, errorShare: 0 }];
    const { last } = of({ seed: 12, routes: even, wander: { spread: 0, remains: 0 }, change: { slower: 2.5 } });
    expect(last.changes.map(({ metric, outcome }) => `${metric} ${outcome}`).sort()).toEqual(["p50 worse", "p95 worse"]);
  });

  it("reports too little data", () => {
    const quiet = [{ subject: "GET /", requestsPerCell: 0.2, medianUs: 1_000, spread: 0.3, errorShare: 0 }];
    const { last, verdicts } = of({ seed: 3, routes: quiet, beforeMs: 10 * minuteMs });
    expect(verdicts[0]).toBe("not-enough-data");
    expect(last.tooFew).toBe(1);
  });

  it("judges many quiet routes together", () => {
    const quiet = Array.from({ length: 15 }, (_, index) => ({
      subject: `GET /page-${index}`,
      requestsPerCell: 0.1,
      medianUs: 5_000,
      spread: 0.4,
      errorShare: 0,
    }));
    const { last } = of({ seed: 4, routes: quiet, beforeMs: 30 * minuteMs, change: { slower: 2 } });
    expect(last.changes.map(({ subject, outcome }) => `${subject}${outcome}`)).toContain("worse");
  });

  it("compares CPU by request, and memory once it has settled", () => {
    const facts = simulate({ seed: 5, routes });
    const noisy = (mean: number, count: number): number[] =>
      Array.from({ length: count }, (_, index) => mean * (1 + 0.05 * Math.sin(index * 1.7)));
    const mebibyte = 1024 ** 2;
    const report = compareBuilds(
      {
        ...facts,
        cpuCores: { before: noisy(0.4, 60), after: noisy(0.8, 30) },
        memoryBytes: { before: noisy(200 * mebibyte, 60), after: [...noisy(100 * mebibyte, 15), ...noisy(400 * mebibyte, 15)] },
      },
      4,
    );
    expect(report.changes.map(({ metric, outcome, unit }) => `${metric} ${outcome} ${unit}`).sort()).toEqual([
      "cpu worse cpu-us",
      "memory worse bytes",
    ]);
    const { before } = report.changes.find(({ metric }) => metric === "cpu")!;
    // 0.4 cores for 8.2 requests a second.
    expect(before).toBeGreaterThan(45_000);
    expect(before).toBeLessThan(53_000);
  });

  it("finds a failing route of the new build, unless the failures only moved there from another route", () => {
    const failing = { subject: "GET /v2", requestsPerCell: 5, medianUs: 5_000, spread: 0.4, errorShare: 0.6 };
    const { verdicts, reports } = of({ seed: 11, change: { newRoute: failing } });
    expect(verdicts[0]).toBe("regression");
    expect(reports[0]?.changes[0]).toMatchObject({ metric: "errors", subject: "GET /v2", before: 0 });
    const facts = simulate({ seed: 11, routes: [...routes, { ...failing, subject: "GET /v1" }] });
    const moved = facts.routes.map((route) => (route.route === "/v1" ? { ...route, after: [] } : route));
    const old = facts.routes.find(({ route }) => route === "/v1")!;
    const report = compareBuilds({ ...facts, routes: [...moved, { ...old, route: "/v2", before: [] }] }, 4);
    expect(report.changes.filter(({ outcome }) => outcome === "worse")).toEqual([]);
  });

  it("does not report a burst after the deployment as a regression", () => {
    const facts = simulate({ seed: 13, routes: routes.slice(0, 1), wander: { spread: 0, remains: 0 } });
    const slow = simulate({ seed: 13, routes: routes.slice(0, 1), wander: { spread: 0, remains: 0 }, change: { slower: 3 } });
    const [route, other] = [facts.routes[0]!, slow.routes[0]!];
    const isBurst = (atMs: number): boolean => atMs >= 20_000 && atMs < 100_000;
    route.after = route.after.map((cell, index) => (isBurst(cell.atMs) ? (other.after[index] ?? cell) : cell));
    expect(verdictOf(compareBuilds(untilMs(facts, 2 * minuteMs), 4))).toBe("no-change");
  });

  it("reports a route without requests as changed, not as worse", () => {
    const facts = simulate({ seed: 6, routes: routes.slice(0, 1) });
    facts.routes[0]!.after = facts.routes[0]!.after.slice(0, 3);
    const report = compareBuilds(facts, 4);
    expect(report.changes).toMatchObject([{ metric: "rate", outcome: "changed" }]);
    expect(verdictOf(report)).not.toBe("regression");
  });
});

describe("percentileUs()", () => {
  it("is within its bucket", () => {
    expect(percentileUs({ lo: 0, counts: [] }, 0.5)).toBeNull();
    // Bucket 17 is 2.048 to 2.176 µs.
    expect(percentileUs({ lo: 17, counts: [10] }, 0.5)).toBeCloseTo(2.112, 6);
  });
});
