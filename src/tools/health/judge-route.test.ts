import { describe, expect, it } from "vitest";
import type { SummaryRouteHealthFact } from "../../model/summary.ts";
import { judgeRoute } from "./judge-route.ts";
import { baselineOf, type MadeWindow, routeOf, sampleNowMs, steadily } from "./route-health.fixture.ts";

function verdictOf(windows: readonly MadeWindow[], more: Partial<SummaryRouteHealthFact> = {}, addedUs = 0, times = 1): string {
  const { errors, slow, queueing } = judgeRoute(routeOf("api", windows, more), sampleNowMs, { addedUs, times });
  return [
    ...(errors === null ? [] : [`${errors.severity} ${errors.rule}${errors.isChronic ? " chronic" : ""}`]),
    ...(slow === null ? [] : [`${slow.severity} slow`]),
    ...(queueing === null ? [] : ["queueing"]),
  ].join(", ");
}

const [bad, good] = [{ errors: 90 }, {}];
const slow: MadeWindow = { p50Us: 200_000, p95Us: 400_000 };

describe("judgeRoute()", () => {
  it.each<[string, MadeWindow[], string]>([
    ["one bad window", [bad, good, good, good], ""],
    ["the second bad window", [bad, bad, good, good], "critical errors"],
    ["every other window", [bad, good, bad, good, bad], "critical errors"],
    ["repaired since one window", [good, bad, bad, good, good], ""],
    ["repaired since one window, after a while", [good, bad, bad, bad, bad], "critical errors"],
    ["repaired since two windows", [good, good, bad, bad, bad, bad], ""],
    ["only one window, all of it bad", [{ requests: 40, errors: 40 }], "critical errors"],
    ["a twentieth fails", steadily({ errors: 8 }), "warning errors"],
    [
      "few fail, many more than usual",
      steadily({ errors: 0, requests: 500 }).map((one) => ({ ...one, errors: 12 })),
      "warning errors-rising",
    ],
    [
      "a handful",
      [
        { requests: 5, errors: 2 },
        { requests: 5, errors: 2 },
      ],
      "",
    ],
    ["rare requests that all fail", steadily({ requests: 1, errors: 1 }).concat(steadily({ requests: 1, errors: 1 })), "critical errors"],
    ["slow since the second window", [slow, slow, good, good], "critical slow"],
    ["slow for one window", [slow, good, good, good], ""],
    ["three times as slow", steadily({ p95Us: 150_000 }), "warning slow"],
    ["requests wait", steadily({ p50Us: 40_000, queueUs: 30_000 }), "queueing"],
    ["requests wait, and take no longer than usual", steadily({ queueUs: 9_000 }), ""],
  ])("%s", (_what, windows, wanted) => expect(verdictOf(windows)).toBe(wanted));

  it("compares with each known baseline", () => {
    const usual = baselineOf({ errors: 3_600, errorRatio: 0.1 });
    expect(verdictOf(steadily({ errors: 12 }), { before: usual })).toBe("");
    expect(verdictOf(steadily({ errors: 45 }), { before: usual })).toBe("critical errors");
    const chronic = baselineOf({ errors: 18_000, errorRatio: 0.5 });
    expect(verdictOf(steadily({ errors: 50 }), { before: chronic })).toBe("warning errors chronic");
    const three = steadily({ p95Us: 150_000 });
    expect(verdictOf(three, { yesterday: baselineOf({ p95Us: 140_000 }) })).toBe("info slow");
    expect(verdictOf(steadily({ p95Us: 500_000 }), { before: baselineOf({ p95Us: 500_000 }) })).toBe("warning slow");
  });

  it("judges errors without a baseline, and latency only with one", () => {
    const unknown = { before: null, yesterday: null };
    expect(verdictOf([bad, bad], unknown)).toBe("critical errors");
    expect(verdictOf([slow, slow], unknown)).toBe("");
    const few = { before: baselineOf({ requests: 19 }), yesterday: null };
    expect(verdictOf([slow, slow], few)).toBe("");
    expect(verdictOf([slow, slow], { ...few, before: baselineOf({ requests: 20 }) })).toBe("critical slow");
  });

  it("ignores milliseconds, the spread of the baseline and what a busy host adds", () => {
    const fast = baselineOf({ p50Us: 800, p95Us: 1_500, p95HighUs: 1_800 });
    const fastRoute = { before: fast, yesterday: fast };
    expect(verdictOf(steadily({ p50Us: 2_000, p95Us: 5_000 }), fastRoute)).toBe("");
    expect(verdictOf(steadily({ p50Us: 2_000, p95Us: 9_000 }), fastRoute)).toBe("warning slow");
    expect(verdictOf(steadily({ p50Us: 2_000, p95Us: 9_000 }), fastRoute, 4_000)).toBe("");
    expect(verdictOf(steadily({ p95Us: 150_000 }), {}, 0, 1.4)).toBe("warning slow");
    expect(verdictOf(steadily({ p95Us: 150_000 }), {}, 0, 1.6)).toBe("");
    expect(verdictOf([slow, slow], {}, 0, 2)).toBe("warning slow");
    const noisy = baselineOf({ p95HighUs: 140_000 });
    expect(verdictOf(steadily({ p95Us: 150_000 }), { before: noisy, yesterday: null })).toBe("");
  });

  it("does not report waiting for a CPU on a busy host as queueing", () => {
    const waiting = steadily({ p50Us: 40_000, queueUs: 30_000 });
    expect(verdictOf(waiting, {}, 9_000)).toBe("queueing");
    // Its usual queueing time is not known.
    expect(verdictOf(waiting, { before: null, yesterday: null })).toBe("");
    expect(verdictOf(waiting, {}, 11_000)).toBe("");
  });

  it("does not report queueing as a slow route", () => {
    const slower = steadily({ p50Us: 400_000, p95Us: 900_000 });
    for (const [protocol, method, route] of [
      ["redis", "BRPOP", "BRPOP ?"],
      ["redis", "XREAD", "XREAD"],
      ["redis", "SUBSCRIBE", "SUBSCRIBE"],
      ["postgres", "SELECT", "SELECT pg_sleep(?)"],
      ["postgres", "LISTEN", "LISTEN jobs"],
      ["kafka", "Fetch", "jobs"],
      ["mongodb", "getMore", "oplog"],
      ["grpc", "POST", "etcdserverpb.Watch/Watch"],
      ["http", "POST", "/v1/traces"],
    ] as const)
      expect(verdictOf(slower, { protocol, method, route }), `${protocol} ${method} ${route}`).toBe("");
    expect(verdictOf(slower, { protocol: "redis", method: "GET", route: "GET" })).toBe("critical slow");
    const poll = baselineOf({ p50Us: 25_000_000, p95Us: 30_000_000 });
    expect(verdictOf(steadily({ p50Us: 60_000_000, p95Us: 65_000_000 }), { before: poll, yesterday: poll })).toBe("");
  });

  it("ignores trouble that ended a minute ago", () => {
    const fact = routeOf("api", [bad, bad]);
    expect(judgeRoute(fact, sampleNowMs + 50_000).errors).not.toBeNull();
    expect(judgeRoute(fact, sampleNowMs + 70_000).errors).toBeNull();
  });
});
