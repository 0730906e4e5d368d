import { describe, expect, it } from "vitest";
import type { ProfileFunction, ProfileNode, ProfileResult } from "../../../tools/index.ts";
import { useColony } from "../../daemon.fixture.ts";

const here = useColony();

function functionOf(name: string, more: Partial<ProfileFunction> = {}): ProfileFunction {
  return {
    name,
    file: "api",
    kind: "native",
    self: 0.5,
    total: 0.6,
    cpuMs: 1_000,
    before: null,
    change: null,
    significant: false,
    ...more,
  };
}

function resultOf(more: Partial<ProfileResult> = {}): ProfileResult {
  return {
    service: "api",
    sinceMs: 600_000,
    coveredMs: 120_000,
    baselineMs: null,
    samples: 2_400,
    samplesBefore: 0,
    cores: 0.421,
    coresBefore: null,
    instances: 2,
    whole: 1,
    named: 1,
    functions: [functionOf("parse"), functionOf("do_sys", { kind: "kernel", file: "", self: 0.1, total: 0.1 })],
    functionsTotal: 2,
    tree: [],
    stacks: [],
    ...more,
  };
}

describe("coral query profile", () => {
  it("lists functions by share of CPU", async () => {
    here.colony.tool("coral_profile_functions", resultOf());
    const { code, stdout } = await here.world.coral("query profile api");
    expect(code).toBe(0);
    expect(stdout).toBe(
      [
        "api  CPU over 10m, sampled for 2m · 0.42 cores · 2,400 samples of 2 processes",
        "SELF  TOTAL  FUNCTION  FILE",
        " 50%    60%  parse     api",
        " 10%    10%  do_sys    kernel",
        "",
      ].join("\n"),
    );
    expect(here.colony.calls[0]?.body).toEqual({ service: "api", since: "10m", stacks: false });
  });

  it("shows changes against a baseline", async () => {
    const functions = [functionOf("parse", { before: { self: 0.1, total: 0.2 }, change: 0.4, significant: true })];
    here.colony.tool("coral_profile_functions", resultOf({ functions, baselineMs: 86_400_000, coresBefore: 0.2 }));
    const { stdout } = await here.world.coral("query profile api --baseline 1d");
    expect(stdout).toContain("1d earlier 0.20 cores");
    expect(stdout).toContain(" 50%    60%     20%   +40.0  parse     api");
  });

  it("indents the call tree only where a caller has several callees", async () => {
    const node = (depth: number, name: string, total: number, self = 0): ProfileNode => ({
      depth,
      name,
      file: "api",
      kind: "native",
      total,
      self,
      change: null,
    });
    const tree = [node(0, "main", 1), node(1, "serve", 1), node(2, "parse", 0.7, 0.7), node(2, "render", 0.3, 0.3)];
    here.colony.tool("coral_profile_functions", resultOf({ tree }));
    const { stdout } = await here.world.coral("query profile api --tree");
    expect(stdout.split("\n").slice(1)).toEqual([
      " TOTAL   SELF  CALL PATH",
      "  100%         main [api]",
      "  100%         serve [api]",
      "   70%    70%    parse [api]",
      "   30%    30%    render [api]",
      "",
    ]);
  });

  it("prints stacks for flame graph tools", async () => {
    here.colony.tool("coral_profile_functions", resultOf({ stacks: [{ frames: ["main", "a;b"], samples: 3 }] }));
    const { stdout } = await here.world.coral("query profile api -o folded");
    expect(stdout).toBe("main;a:b 3\n");
    expect(here.colony.calls[0]?.body).toMatchObject({ stacks: true });
  });
});
