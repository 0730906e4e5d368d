import { describe, expect, it } from "vitest";
import type { RunningBuild } from "../../store/queries/index.ts";
import { KnownBuilds } from "./known-builds.ts";

const minuteMs = 60_000;
const startMs = Date.UTC(2026, 0, 1);

function run(build: string, startedMs: number, more: Partial<RunningBuild> = {}): RunningBuild {
  return { service: "api", foundBy: "process", build, version: "", agentId: "web-1", startedMs, ...more };
}

/** Observes the scans, half a minute apart, and returns the deployments. */
function watch(scans: RunningBuild[][], known = new KnownBuilds([], startMs)): string[] {
  return scans.flatMap((running, index) =>
    known
      .observe(running, ["process", "span"], startMs + index * (minuteMs / 2))
      .found.map(({ foundBy, build, previousBuild, version, previousVersion }) =>
        foundBy === "build" ? `${previousBuild} → ${build}` : `${previousVersion} → ${version}`,
      ),
  );
}

const many = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one);

describe("KnownBuilds", () => {
  it("detects a new build of a service, once", () => {
    const later = startMs + minuteMs;
    expect(watch([[run("a", startMs)], [run("a", startMs)], [run("b", later)], [run("b", later)], [run("b", later)]])).toEqual(["a → b"]);
  });

  it("reports no deployment for initial builds and restarts", () => {
    expect(watch([[run("a", startMs), run("b", startMs)], [run("a", startMs + minuteMs)]])).toEqual([]);
  });

  it("counts a rollout over several hosts once, even when the old build restarts meanwhile", () => {
    const [old, fresh] = [startMs, startMs + minuteMs];
    expect(
      watch([
        [run("a", old), run("a", old, { agentId: "web-2" }), run("a", old, { agentId: "web-3" })],
        [run("b", fresh), run("a", old, { agentId: "web-2" }), run("a", old, { agentId: "web-3" })],
        [run("b", fresh), run("a", fresh + minuteMs, { agentId: "web-2" }), run("a", old, { agentId: "web-3" })],
        [run("b", fresh), run("b", fresh, { agentId: "web-2" }), run("b", fresh, { agentId: "web-3" })],
      ]),
    ).toEqual(["a → b"]);
  });

  it("reports the places that a build reaches later", () => {
    const known = new KnownBuilds([], startMs);
    watch([[run("a", startMs)], [run("b", startMs + minuteMs)]], known);
    const news = known.observe(
      [run("b", startMs + minuteMs), run("b", startMs + 2 * minuteMs, { agentId: "web-2" })],
      ["process"],
      startMs + 2 * minuteMs,
    );
    expect(news.found).toEqual([]);
    expect(news.arrived).toMatchObject([{ build: "b", places: [{ agentId: "web-1" }, { agentId: "web-2" }] }]);
  });

  it("detects a rollback to a stopped build", () => {
    const [a, b] = [[run("a", startMs)], [run("b", startMs + minuteMs)]];
    expect(watch([a, ...many(3, b), [run("a", startMs + 3 * minuteMs)]])).toEqual(["a → b", "b → a"]);
  });

  it("reports no deployment when one of two programs of a service restarts", () => {
    const both = [run("a", startMs), run("b", startMs)];
    expect(watch([both, ...many(5, [run("b", startMs)]), [run("a", startMs + 4 * minuteMs), run("b", startMs)]])).toEqual([]);
  });

  it("reports no deployment when a host joins with an older build", () => {
    expect(watch([[run("a", startMs)], [run("a", startMs), run("old", startMs - 86_400_000, { agentId: "web-9" })]])).toEqual([]);
  });

  it("detects a new version of the same program, by environment or spans", () => {
    const of = (version: string, startedMs: number, foundBy: RunningBuild["foundBy"]): RunningBuild =>
      run(foundBy === "span" ? "" : "node", startedMs, { version, foundBy });
    expect(watch([[of("1.0", startMs, "process")], [of("1.1", startMs + minuteMs, "process")]])).toEqual(["1.0 → 1.1"]);
    expect(watch([[of("1.0", startMs, "span")], [of("1.0", startMs, "span"), of("1.1", startMs + minuteMs, "span")]])).toEqual([
      "1.0 → 1.1",
    ]);
  });

  it("continues from its stored state after a restart of the colony", () => {
    const known = new KnownBuilds([], startMs);
    const stored = new Map<string, Parameters<typeof storedOf>[0]>();
    const storedOf = (build: ReturnType<KnownBuilds["observe"]>["builds"][number]) => stored.set(`${build.build} ${build.version}`, build);
    for (const build of known.observe([run("a", startMs)], ["process"], startMs).builds) storedOf(build);
    const again = new KnownBuilds([...stored.values()], startMs + 3_600_000);
    // Unseen for an hour, because the colony was down.
    expect(again.observe([], ["process"], startMs + 3_600_000).builds).toEqual([]);
    expect(again.observe([run("b", startMs + 1_800_000)], ["process"], startMs + 3_601_000).found).toMatchObject([
      { build: "b", previousBuild: "a" },
    ]);
  });
});
