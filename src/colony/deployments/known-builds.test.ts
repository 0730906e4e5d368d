import { describe, expect, it } from "vitest";
import type { RunningBuild } from "../../store/queries/index.ts";
import { KnownBuilds } from "./known-builds.ts";

const minuteMs = 60_000;
const startMs = Date.UTC(2026, 0, 1);

function run(build: string, startedMs: number, more: Partial<RunningBuild> = {}): RunningBuild {
  return { service: "api", foundBy: "process", build, version: "", agentId: "web-1", startedMs, ...more };
}

/** Observes one scan after the other, each half a minute later, and tells what was deployed. */
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
  it("finds another build of a service, once", () => {
    const later = startMs + minuteMs;
    expect(watch([[run("a", startMs)], [run("a", startMs)], [run("b", later)], [run("b", later)], [run("b", later)]])).toEqual(["a → b"]);
  });

  it("finds nothing in what is there at first, or in a restart", () => {
    expect(watch([[run("a", startMs), run("b", startMs)], [run("a", startMs + minuteMs)]])).toEqual([]);
  });

  it("counts a roll-out over several hosts once, although the old build starts again meanwhile", () => {
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

  it("tells where a build has arrived since", () => {
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

  it("finds the way back to a build that had gone", () => {
    const [a, b] = [[run("a", startMs)], [run("b", startMs + minuteMs)]];
    expect(watch([a, ...many(3, b), [run("a", startMs + 3 * minuteMs)]])).toEqual(["a → b", "b → a"]);
  });

  it("takes the restart of one of two programs of a service for what it is", () => {
    const both = [run("a", startMs), run("b", startMs)];
    expect(watch([both, ...many(5, [run("b", startMs)]), [run("a", startMs + 4 * minuteMs), run("b", startMs)]])).toEqual([]);
  });

  it("takes a host that joins with an older build of its own for what it is", () => {
    expect(watch([[run("a", startMs)], [run("a", startMs), run("old", startMs - 86_400_000, { agentId: "web-9" })]])).toEqual([]);
  });

  it("finds another version of the same program, by environment or spans", () => {
    const of = (version: string, startedMs: number, foundBy: RunningBuild["foundBy"]): RunningBuild =>
      run(foundBy === "span" ? "" : "node", startedMs, { version, foundBy });
    expect(watch([[of("1.0", startMs, "process")], [of("1.1", startMs + minuteMs, "process")]])).toEqual(["1.0 → 1.1"]);
    expect(watch([[of("1.0", startMs, "span")], [of("1.0", startMs, "span"), of("1.1", startMs + minuteMs, "span")]])).toEqual([
      "1.0 → 1.1",
    ]);
  });

  it("goes on after a restart of the colony where it was", () => {
    const known = new KnownBuilds([], startMs);
    const stored = new Map<string, Parameters<typeof storedOf>[0]>();
    const storedOf = (build: ReturnType<KnownBuilds["observe"]>["builds"][number]) => stored.set(`${build.build} ${build.version}`, build);
    for (const build of known.observe([run("a", startMs)], ["process"], startMs).builds) storedOf(build);
    const again = new KnownBuilds([...stored.values()], startMs + 3_600_000);
    // Nothing has been heard of it for an hour, because nobody listened.
    expect(again.observe([], ["process"], startMs + 3_600_000).builds).toEqual([]);
    expect(again.observe([run("b", startMs + 1_800_000)], ["process"], startMs + 3_601_000).found).toMatchObject([
      { build: "b", previousBuild: "a" },
    ]);
  });
});
