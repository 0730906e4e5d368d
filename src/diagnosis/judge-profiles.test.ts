import { describe, expect, it } from "vitest";
import type { FrameKind, HotFunction, HotFunctions } from "../model/profiles.ts";
import type { Cause, Diagnosis } from "./diagnose.ts";
import { judgeProfiles, profileCandidates } from "./judge-profiles.ts";
import type { CauseKind } from "./suspicion.ts";

const suspect = (service: string, kind: CauseKind): Cause => ({
  service,
  kind,
  pointer: "GET /search",
  score: 2,
  confidence: 0.9,
  evidence: [
    {
      service,
      kind,
      score: 2,
      rawScore: 2,
      pointer: "GET /search",
      statement: "GET /search is slow",
      figures: { name: "duration", unit: "us", before: 1, after: 9 },
      explainedBy: "",
    },
  ],
  chain: [service],
  change: null,
});

const diagnosisOf = (...causes: Cause[]): Diagnosis => ({ causes, ruledOut: [], nearest: null, services: causes.length });

const grew = (name: string, now: number, before: number, kind: FrameKind = "native"): HotFunction => ({
  name,
  file: "/usr/bin/app",
  kind,
  self: { now, before },
  total: { now, before },
  cores: { now, before },
  deviations: 9,
  isSignificant: true,
});

const profile = (...grown: HotFunction[]): HotFunctions => ({
  samples: { now: 400, before: 400 },
  cores: { now: 1, before: 0.2 },
  hottest: [],
  grown,
});

const judged = (cause: Cause, found: HotFunctions) => judgeProfiles(diagnosisOf(cause), new Map([[cause.service, found]])).causes[0];

describe("judgeProfiles()", () => {
  it("points to the function that gained the CPU time, not to its callers", () => {
    const found = profile(grew("handle", 0.9, 0.2), grew("render", 0.85, 0.1), grew("log", 0.15, 0.05));
    expect(judged(suspect("catalog", "hot-code"), found)).toMatchObject({ kind: "hot-code", pointer: "render (app)" });
  });

  it("prefers code of the program over code of its runtime", () => {
    const found = profile(grew("_PyEval_EvalFrameDefault", 0.9, 0.1), grew("score", 0.8, 0.05, "python"), grew("memcpy", 0.7, 0.01));
    expect(judged(suspect("orders", "hot-code"), found)?.pointer).toBe("score (app)");
  });

  it("names nothing where the code that gained has no name: its callers in the runtime are no answer", () => {
    const unnamed = { ...grew("[jit]", 0.97, 0.2, "unknown"), file: "" };
    const runtime = profile(unnamed, grew("uv_run", 0.98, 0.3), grew("node::Start", 0.99, 0.31));
    expect(judged(suspect("catalog", "hot-code"), runtime)?.pointer).toBe("GET /search");
    // Called by compiled code, and the one that works.
    expect(judged(suspect("catalog", "hot-code"), profile(...runtime.grown, grew("sha256_block", 0.9, 0.1)))?.pointer).toBe(
      "sha256_block (app)",
    );
  });

  it("keeps the route where only the runtime below its code has a name, and shows that as evidence", () => {
    const now = { ...grew("node::performance::FastPerformanceNow", 0.52, 0.01), file: "/usr/bin/node" };
    const { evidence, ...waiting } = suspect("catalog", "waiting");
    const [symptom] = suspect("catalog", "slow").evidence;
    const cause = judged({ ...waiting, evidence: [...evidence, ...(symptom ? [symptom] : [])] }, profile(now));
    expect(cause?.evidence.map((one) => one.kind)).toEqual(["slow", "hot-code"]);
    expect(cause).toMatchObject({ kind: "hot-code", pointer: "GET /search" });
    expect(cause?.evidence.map(({ pointer }) => pointer)).toEqual(["GET /search", "node::performance::FastPerformanceNow (node)"]);
  });

  it("turns a slow service whose function burns CPU into hot code, and keeps its symptom as evidence", () => {
    const cause = judged(suspect("catalog", "slow"), profile(grew("render", 0.9, 0.1)));
    expect(cause).toMatchObject({ kind: "hot-code", pointer: "render (app)" });
    expect(cause?.evidence.map(({ pointer }) => pointer)).toEqual(["render (app)", "GET /search"]);
    expect(cause?.evidence[0]?.statement).toBe("render (app) takes 90% of its CPU time, was 10%: 0.9 cores, was 0.1");
  });

  it("adds the function to a limit that was reached, without replacing the limit", () => {
    const cause = judged(suspect("catalog", "cpu-limit"), profile(grew("render", 0.9, 0.1)));
    expect(cause).toMatchObject({ kind: "cpu-limit", pointer: "GET /search" });
    expect(cause?.evidence[1]?.pointer).toBe("render (app)");
  });

  it("does not change a cause with few samples, without significant growth, or unrelated to CPU", () => {
    const found = profile(grew("render", 0.9, 0.1));
    expect(judged(suspect("catalog", "hot-code"), { ...found, samples: { now: 9, before: 400 } })?.pointer).toBe("GET /search");
    expect(judged(suspect("catalog", "hot-code"), profile({ ...grew("render", 0.9, 0.1), isSignificant: false }))?.pointer).toBe(
      "GET /search",
    );
    expect(judged(suspect("catalog", "hot-code"), profile(grew("render", 0.13, 0.1)))?.pointer).toBe("GET /search");
    expect(judged(suspect("postgres", "lock-wait"), found)?.kind).toBe("lock-wait");
  });
});

describe("profileCandidates()", () => {
  it("names the two strongest suspects that may be about CPU", () => {
    const causes = diagnosisOf(suspect("a", "down"), suspect("b", "slow"), suspect("c", "hot-code"), suspect("d", "slow"));
    expect(profileCandidates(causes)).toEqual(["b", "c"]);
  });
});
