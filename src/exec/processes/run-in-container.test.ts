import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { parseCommand, type Stage, stageOfArgv } from "../policy/parse-command.ts";
import { containerArgv } from "./run-in-container.ts";

const programs = (stages: readonly Stage[]) => stages.map((stage) => ({ argv: stage.argv, stage }));
const output = (words: string[], input = ""): string => execFileSync(words[0] ?? "", words.slice(1), { input, encoding: "utf8" });

describe("containerArgv()", () => {
  it("passes a single program unchanged", () => {
    expect(containerArgv(programs([stageOfArgv(["echo", "$(id)", "a b"])]), undefined)).toEqual(["echo", "$(id)", "a b"]);
  });

  it("passes pipeline arguments as positional parameters, never as shell text", () => {
    const words = containerArgv(programs(parseCommand("echo '$(id)' '; id' '`id`' | cat 2>&1 | tr a-z A-Z")), undefined);
    expect(words[2]?.replaceAll(/"\$\{(\d+)\}"/g, "<$1>")).toBe("<1> <2> <3> <4> | <5> 2>&1 | <6> <7> <8>");
    expect(output(words)).toBe("$(ID) ; ID `ID`\n");
  });

  it("supports more than nine arguments", () => {
    const list = Array.from({ length: 30 }, (_, index) => `w${index}`);
    expect(output(containerArgv(programs([stageOfArgv(["echo", ...list]), stageOfArgv(["cat"])]), undefined))).toBe(`${list.join(" ")}\n`);
  });

  it("passes the end of the input", () => {
    expect(output(containerArgv(programs([stageOfArgv(["cat"])]), 5), "hello, and more")).toBe("hello");
  });

  it("applies the stage's redirections", () => {
    expect(output(containerArgv(programs(parseCommand("ls /nonexistent 2>/dev/null | wc -l")), undefined)).trim()).toBe("0");
    expect(output(containerArgv(programs(parseCommand("ls / >/dev/null | wc -l")), undefined)).trim()).toBe("0");
    expect(output(containerArgv(programs(parseCommand("ls / /nonexistent 2>&1 >/dev/null | wc -l")), undefined)).trim()).toBe("1");
    expect(output(containerArgv(programs(parseCommand("ls / /nonexistent >/dev/null 2>&1 | wc -l")), undefined)).trim()).toBe("0");
  });
});
