import { describe, expect, it } from "vitest";
import type { BuildSighting } from "../../store/queries/index.ts";
import { KnownBuilds } from "./known-builds.ts";
import { rolloutState } from "./rollout-state.ts";

const minuteMs = 60_000;
const startMs = Date.UTC(2026, 0, 1);
const variantMs = 60 * minuteMs;

interface Run extends Partial<BuildSighting> {
  build: string;
  startedMs: number;
}

function run(build: string, startedMs: number, more: Partial<BuildSighting> = {}): Run {
  return { build, startedMs, ...more };
}

/** A scan of each agent named, at one time; agents without a row ran nothing of the service. */
function scanAt(atMs: number, runs: readonly Run[], agents: readonly string[] = ["web-1"]) {
  const sightings = runs.map(
    (one): BuildSighting => ({
      service: "api",
      foundBy: "process",
      version: "",
      agentId: "web-1",
      firstMs: one.foundBy === "span" ? one.startedMs : atMs,
      lastMs: atMs,
      instances: 1,
      ...one,
    }),
  );
  const scanned = new Set([...agents, ...sightings.map(({ agentId }) => agentId)]);
  return { sightings, scans: [...scanned].map((agentId) => ({ agentId, lastMs: atMs, storedMs: atMs })) };
}

const fresh = () => new KnownBuilds({ known: [], nowMs: startMs });

/** Observes the scans, half a minute apart, and returns the deployments. */
function watch(scans: Run[][], known = fresh()): string[] {
  return scans.flatMap((running, index) => {
    const atMs = startMs + (index + 1) * (minuteMs / 2);
    return known
      .observe(scanAt(atMs, running), atMs)
      .found.map(({ foundBy, build, previousBuild, version, previousVersion }) =>
        foundBy === "build" ? `${previousBuild} → ${build}` : `${previousVersion} → ${version}`,
      );
  });
}

function stateOf(known: KnownBuilds, name: string, nowMs: number, previous = "a") {
  const build = known.buildsOf("api", "process").find((one) => one.build === name)!;
  return rolloutState(known, { build, previous: { build: previous, version: "" }, nowMs, variantMs });
}

const many = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one);

describe("KnownBuilds", () => {
  it("detects a new build of a service, once", () => {
    const later = startMs + minuteMs;
    expect(watch([[run("a", startMs)], [run("a", startMs)], [run("b", later)], [run("b", later)], [run("b", later)]])).toEqual(["a → b"]);
  });

  it("reports no deployment for initial builds, restarts and scaling", () => {
    expect(watch([[run("a", startMs), run("b", startMs)], [run("a", startMs + minuteMs)]])).toEqual([]);
    expect(
      watch([[run("a", startMs)], [run("a", startMs, { instances: 5 }), run("a", startMs, { agentId: "web-2" })], [run("a", startMs)]]),
    ).toEqual([]);
  });

  it("counts a rollout over ten hosts once, even when the old build restarts meanwhile", () => {
    const hosts = Array.from({ length: 10 }, (_, index) => `web-${index + 1}`);
    const old = startMs - 86_400_000;
    const scans = Array.from({ length: 12 }, (_, step) =>
      hosts.map((agentId, index) => {
        if (index < step) return run("b", startMs + (index + 1) * (minuteMs / 2) + 5_000, { agentId });
        return run("a", step === 4 && index === 9 ? startMs + 2 * minuteMs : old, { agentId });
      }),
    );
    expect(watch(scans)).toEqual(["a → b"]);
  });

  it("detects a rollback to a stopped build", () => {
    const [a, b] = [[run("a", startMs)], [run("b", startMs + minuteMs)]];
    expect(watch([a, a, ...many(3, b), [run("a", startMs + 3 * minuteMs)]])).toEqual(["a → b", "b → a"]);
  });

  it("reports no deployment when one of two programs of a service restarts", () => {
    const both = [run("a", startMs), run("b", startMs - 86_400_000)];
    expect(watch([both, ...many(5, [run("b", startMs - 86_400_000)]), [run("a", startMs + 3 * minuteMs), ...both.slice(1)]])).toEqual([]);
  });

  it("reports no deployment when a host joins with an older build", () => {
    expect(watch([[run("a", startMs)], [run("a", startMs), run("old", startMs - 86_400_000, { agentId: "web-9" })]])).toEqual([]);
  });

  it("reports no deployment when the build of the same process is derived differently", () => {
    const started = startMs + 40_000;
    expect(watch([[run("a", startMs)], [run("a", startMs)], [run("sha-of-node", started)], [run("script-1", started)]])).toEqual([
      "a → sha-of-node",
    ]);
  });

  it("detects a new version of the same program, by environment or spans", () => {
    const of = (version: string, startedMs: number, foundBy: BuildSighting["foundBy"]): Run =>
      run(foundBy === "span" ? "" : "node", startedMs, { version, foundBy });
    expect(watch([[of("1.0", startMs, "process")], [of("1.1", startMs + 45_000, "process")]])).toEqual(["1.0 → 1.1"]);
    expect(watch([[of("1.0", startMs, "span")], [of("1.0", startMs, "span"), of("1.1", startMs + minuteMs, "span")]])).toEqual([
      "1.0 → 1.1",
    ]);
  });

  it("dates late rows by their own time, and finds a build between two", () => {
    const known = fresh();
    known.observe(scanAt(startMs, [run("a", startMs - 86_400_000)]), startMs);
    // The agent was disconnected for half an hour, in which two builds were deployed; everything arrives at once.
    const atMs = (minutes: number): number => startMs + minutes * minuteMs;
    const backlog = [
      scanAt(atMs(1), [run("a", startMs - 86_400_000)]),
      scanAt(atMs(5), [run("b", atMs(4))]),
      scanAt(atMs(20), [run("c", atMs(18))]),
    ];
    const { found } = known.observe(
      { sightings: backlog.flatMap(({ sightings }) => sightings), scans: [{ agentId: "web-1", lastMs: atMs(20), storedMs: atMs(30) }] },
      atMs(30),
    );
    expect(found).toMatchObject([
      { build: "b", previousBuild: "a", startedMs: atMs(4) },
      { build: "c", previousBuild: "b", startedMs: atMs(18) },
    ]);
  });

  it("dates a deployment by the colony's clock where an agent's differs", () => {
    const aheadMs = 5 * minuteMs;
    const known = new KnownBuilds({ known: [], nowMs: startMs, clockDifferenceMs: () => aheadMs });
    known.observe(scanAt(startMs + aheadMs, [run("a", startMs)]), startMs);
    const { found } = known.observe(
      scanAt(startMs + 2 * minuteMs + aheadMs, [run("b", startMs + minuteMs + aheadMs)]),
      startMs + 2 * minuteMs,
    );
    expect(found).toMatchObject([{ startedMs: startMs + minuteMs, places: [{ agentId: "web-1", atMs: startMs + minuteMs + aheadMs }] }]);
  });

  it("continues from its stored state after a restart of the colony", () => {
    const stored = fresh().observe(scanAt(startMs, [run("a", startMs - minuteMs)]), startMs).builds;
    const laterMs = startMs + 3_600_000;
    const again = new KnownBuilds({ known: stored, nowMs: laterMs });
    // Unseen for an hour, because the colony was down.
    again.observe({ sightings: [], scans: [] }, laterMs);
    expect(again.buildsOf("api", "process")).toMatchObject([{ build: "a", isRunning: true }]);
    expect(again.observe(scanAt(laterMs, [run("b", startMs + 1_800_000)]), laterMs + 1_000).found).toMatchObject([
      { build: "b", previousBuild: "a" },
    ]);
  });
});

describe("rolloutState()", () => {
  const old = startMs - 86_400_000;

  it("is rolling with shares while the old build runs, then complete, for any way of replacing it", () => {
    const known = fresh();
    known.observe(scanAt(startMs, [run("a", old, { instances: 3 }), run("a", old, { agentId: "web-2" })]), startMs);
    const nextMs = startMs + minuteMs;
    const started = nextMs - 10_000;
    known.observe(scanAt(nextMs, [run("a", old, { instances: 2 }), run("b", started), run("a", old, { agentId: "web-2" })]), nextMs);
    expect(stateOf(known, "b", nextMs)).toEqual({
      state: "rolling",
      endedMs: null,
      shares: [
        { build: "b", version: null, instances: 1, agents: 1, requests: null },
        { build: "a", version: null, instances: 3, agents: 2, requests: null },
      ],
    });
    const lastMs = startMs + 2 * minuteMs;
    known.observe(scanAt(lastMs, [run("b", started, { instances: 3 }), run("b", lastMs - 1_000, { agentId: "web-2" })]), lastMs);
    expect(stateOf(known, "b", lastMs)).toEqual({ state: "complete", shares: [], endedMs: nextMs });
  });

  it("is rolled back when the new build goes and the old one stays or returns", () => {
    const canary = fresh();
    canary.observe(scanAt(startMs, [run("a", old)]), startMs);
    canary.observe(scanAt(startMs + minuteMs, [run("a", old), run("b", startMs + 50_000)]), startMs + minuteMs);
    canary.observe(scanAt(startMs + 2 * minuteMs, [run("a", old)]), startMs + 2 * minuteMs);
    expect(stateOf(canary, "b", startMs + 2 * minuteMs)).toEqual({ state: "rolled-back", shares: [], endedMs: startMs + minuteMs });
    const returned = fresh();
    watch([[run("a", old)], [run("b", startMs + 50_000)], [run("b", startMs + 50_000)], [run("a", startMs + 100_000)]], returned);
    expect(stateOf(returned, "b", startMs + 2 * minuteMs)?.state).toBe("rolled-back");
    expect(stateOf(returned, "a", startMs + 2 * minuteMs, "b")?.state).toBe("complete");
  });

  it("is a variant when both stay", () => {
    const known = fresh();
    const started = startMs + 50_000;
    const both = [run("a", old), run("b", started, { agentId: "web-2" })];
    known.observe(scanAt(startMs, [run("a", old)], ["web-1", "web-2"]), startMs);
    known.observe(scanAt(startMs + minuteMs, both), startMs + minuteMs);
    expect(stateOf(known, "b", startMs + minuteMs)?.state).not.toBe("variant");
    const laterMs = started + variantMs;
    known.observe(scanAt(laterMs, both), laterMs);
    expect(stateOf(known, "b", laterMs)?.state).toBe("variant");
  });

  it("completes beside an earlier variant", () => {
    const known = fresh();
    known.observe(scanAt(startMs, [run("a", old), run("v", old, { agentId: "web-2" })]), startMs);
    const nextMs = startMs + minuteMs;
    known.observe(scanAt(nextMs, [run("b", nextMs - 5_000), run("v", old, { agentId: "web-2" })]), nextMs);
    expect(stateOf(known, "b", nextMs)).toMatchObject({ state: "complete", endedMs: startMs });
  });

  it("treats builds of a silent host as stopped, and of a returning one as running", () => {
    const known = fresh();
    known.observe(scanAt(startMs, [run("a", old), run("a", old, { agentId: "web-2" })]), startMs);
    const quietMs = startMs + 15 * minuteMs;
    for (let atMs = startMs + minuteMs; atMs <= quietMs; atMs += minuteMs)
      known.observe(scanAt(atMs, [run("b", startMs + 50_000, { agentId: "web-2" })], ["web-2"]), atMs);
    expect(stateOf(known, "b", quietMs)?.state).toBe("complete");
    const backMs = quietMs + minuteMs;
    known.observe(scanAt(backMs, [run("a", old), run("b", startMs + 50_000, { agentId: "web-2" })]), backMs);
    expect(stateOf(known, "b", backMs)?.state).toBe("rolling");
  });
});
