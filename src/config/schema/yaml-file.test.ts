import { describe, expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { agentConfigSchema } from "../agent/agent-config.ts";
import { problemsOf } from "./config-problem.ts";
import { parseYaml } from "./yaml-file.ts";

describe("parseYaml()", () => {
  it("locates keys and values in maps, lists and flow style", async () => {
    const file = await parseYaml("a:\n  b: 1\nlist:\n  - x\n  - {c: 2}\n", "f", "file");
    expect(file.value).toEqual({ a: { b: 1 }, list: ["x", { c: 2 }] });
    expect(file.positionOf(["a", "b"])).toEqual({ line: 2, column: 6 });
    expect(file.positionOf(["a", "b"], "key")).toEqual({ line: 2, column: 3 });
    expect(file.positionOf(["list", 1, "c"])).toEqual({ line: 5, column: 9 });
    expect(file.positionOf(["list", 7])).toEqual({ line: 4, column: 3 });
    expect(file.positionOf(["absent", "deep"])).toEqual({ line: 1, column: 1 });
    expect(file.positionOf([])).toEqual({ line: 1, column: 1 });
  });

  it("keeps a file from reaching an object's prototype", async () => {
    const file = await parseYaml("__proto__:\n  polluted: 1\n", "f", "file");
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    const result = agentConfigSchema.safeParse(file.value);
    expect(result.success && (result.data as Record<string, unknown>)["polluted"]).toBeFalsy();
  });

  it.each([
    ["a: [1, 2\n", /^line \d+, column \d+: /],
    ["a: 'open\n", /^line \d+, column \d+: /],
    ["a: !custom x\n", /^line 1, column 4: unresolved tag/],
    ["a: *nowhere\n", /^it uses an alias/],
    ["? {x: 1}\n: 2\n", /^line 1, column 3: /],
  ])("rejects %j with a position", async (text, place) => {
    const error = await parseYaml(text, "f", "file").catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(CoralError);
    expect((error as CoralError).message.replace('Cannot read file "f": ', "")).toMatch(place);
  });

  it("returns a value or throws a CoralError with a message for any text", async () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    const parts = [
      "log:",
      "\n",
      "  ",
      "level: info",
      "- ",
      "{",
      "}",
      "[",
      "]",
      '"',
      "'",
      "&a ",
      "*a",
      "|",
      ">",
      "\t",
      "#",
      "? ",
      ": ",
      "host:\n  interval: 5s",
      "\u0000",
      "é",
      "---",
      "...",
      "!!str",
      "listen: 1",
    ];
    for (let round = 0; round < 400; round++) {
      const text = Array.from({ length: 1 + random(14) }, () => parts[random(parts.length)]).join("");
      try {
        const file = await parseYaml(text, "f", "file");
        const result = agentConfigSchema.safeParse(file.value ?? {});
        const problems = result.success ? [] : problemsOf(result.error.issues, agentConfigSchema, file.value);
        for (const problem of problems) {
          expect(problem.message).not.toBe("");
          expect(file.positionOf(problem.path, problem.at).line).toBeGreaterThan(0);
        }
      } catch (error) {
        expect(error, JSON.stringify(text)).toBeInstanceOf(CoralError);
      }
    }
  });
});
