import { execFileSync, spawnSync } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, type TestContext } from "vitest";
import { commandTable, globalOptions } from "../command-table.ts";
import { bashCompletion } from "./bash.ts";
import { completionNodes, valueFlags } from "./completion-nodes.ts";
import { fishCompletion } from "./fish.ts";
import { zshCompletion } from "./zsh.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-completion-"));
  await writeFile(join(directory, "coral"), '#!/bin/sh\n[ "$1" = __complete ] && printf "%s-one\\n%s-two\\n" "$2" "$2"\n');
  await chmod(join(directory, "coral"), 0o755);
  await writeFile(join(directory, "coral.bash"), bashCompletion(commandTable, globalOptions));
  await writeFile(join(directory, "_coral"), zshCompletion(commandTable, globalOptions));
  await writeFile(join(directory, "coral.fish"), fishCompletion(commandTable, globalOptions));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** Skips with a reason when the shell is not installed. */
function needShell(context: TestContext, shell: string): void {
  const found = spawnSync(shell, ["--version"], { stdio: "ignore" }).status === 0;
  context.skip(!found, `${shell} is not installed`);
}

describe("bash", () => {
  beforeEach((context) => needShell(context, "bash"));

  function complete(line: string): string[] {
    const words = line.split(" ");
    const script = `source ${directory}/coral.bash; COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _coral; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const env = { ...process.env, PATH: `${directory}:${process.env["PATH"]}` };
    return execFileSync("bash", ["--norc", "-c", script], { encoding: "utf8", cwd: directory, env })
      .split("\n")
      .filter((word) => word !== "");
  }

  it.each([
    ["coral st", ["status"]],
    ["coral co", ["colony", "config", "completion", "connect"]],
    ["coral network ", ["services", "ingress", "egress", "topology", "ranges"]],
    ["coral network topology -o d", ["dot"]],
    ["coral services ", ["services-one", "services-two"]],
    ["coral disconnect managed-services-one ", ["managed-services-one", "managed-services-two"]],
    ["coral network ranges update --file coral.b", ["coral.bash"]],
    ["coral colony ", ["start", "status", "stop", "token"]],
    ["coral colony token ", ["create", "list", "revoke"]],
    ["coral --colony x agent l", ["list"]],
    ["coral colony start --da", ["--daemon"]],
    ["coral status -o ", ["table", "wide", "json", "yaml", "csv"]],
    ["coral status --output j", ["json"]],
    ["coral status --output = y", ["yaml"]],
    ["coral config view -o ", ["yaml", "json"]],
    ["coral completion ", ["bash", "zsh", "fish"]],
    ["coral mcp config c", ["claude-desktop", "claude-code", "cursor", "codex"]],
    ["coral config use-context ", ["contexts-one", "contexts-two"]],
    ["coral status --colony contexts-t", ["contexts-two"]],
    ["coral query host --since 5m ", ["agents-one", "agents-two"]],
    ["coral tool call ", ["tools-one", "tools-two"]],
    ["coral tool call coral_x ", []],
    ["coral config validate coral.", ["coral.bash", "coral.fish"]],
    ["coral __", []],
  ])("completes %j", (line, expected) => {
    expect(complete(line).sort()).toEqual([...expected].sort());
  });

  it("offers every option of a command, global ones included", () => {
    expect(complete("coral agent list --")).toEqual([
      "--health",
      "--runtime",
      "--mode",
      "--capability",
      "--verbose",
      "--output",
      "--json",
      "--watch",
      "--colony",
      "--quiet",
      "--no-color",
      "--log-level",
      "--help",
    ]);
  });
});

describe("zsh", () => {
  beforeEach((context) => needShell(context, "zsh"));

  /** zsh's completion system needs a terminal; the candidates that the script passes to it do not. */
  function offered(line: string): string[] {
    const words = line.split(" ");
    const script = `compdef() { }; _files() { print FILES }; _describe() { print -l -- "\${(@P)@[-1]}" }; source ${directory}/_coral; words=(${words.map((word) => `'${word}'`).join(" ")}); CURRENT=${words.length}; _coral`;
    const env = { ...process.env, PATH: `${directory}:${process.env["PATH"]}` };
    return execFileSync("zsh", ["-fc", script], { encoding: "utf8", env })
      .split("\n")
      .filter((word) => word !== "");
  }

  it.each([
    ["coral ", "status:Show the colony, its agents and hosts, and what needs attention"],
    ["coral colony token ", "create:Create a token and print its secret, once"],
    ["coral status -o ", "json"],
    ["coral --colony x agent list -", "--verbose:Print one box per agent with platform, runtime, capabilities and their reasons"],
    ["coral config use-context ", "contexts-one"],
    ["coral disconnect a b ", "managed-services-one"],
    ["coral config validate ", "FILES"],
  ])("offers for %j", (line, expected) => {
    expect(offered(line)).toContain(expected);
  });
});

describe("fish", () => {
  beforeEach((context) => needShell(context, "fish"));

  it.each([
    ["coral st", "status"],
    ["coral colony token c", "create"],
    ["coral status --output j", "json"],
    ["coral config use-context ", "contexts-one"],
  ])("completes %j", (line, expected) => {
    const env = { ...process.env, PATH: `${directory}:${process.env["PATH"]}`, HOME: directory };
    const text = execFileSync("fish", ["--no-config", "-c", `source ${directory}/coral.fish; complete -C '${line}'`], {
      encoding: "utf8",
      env,
    });
    expect(text.split("\n").map((item) => item.split("\t")[0])).toContain(expected);
  });
});

describe("every shell", () => {
  it("uses each flag consistently in all commands, since the scripts do not distinguish them", () => {
    const nodes = completionNodes(commandTable, globalOptions);
    const withValue = new Set(valueFlags(nodes));
    const switches = nodes.flatMap((node) => node.options).filter((option) => option.value === undefined || option.valueOptional);
    for (const option of switches) {
      expect(withValue.has(`--${option.name}`), option.name).toBe(false);
      if (option.short) expect(withValue.has(`-${option.short}`), option.short).toBe(false);
    }
  });

  it("knows each visible command and no hidden one", () => {
    for (const script of [bashCompletion, zshCompletion, fishCompletion]) {
      const text = script(commandTable, globalOptions);
      for (const node of completionNodes(commandTable, globalOptions))
        for (const command of node.commands) expect(text).toContain(command.name);
      expect(text).not.toMatch(/__complete['" ](?!contexts|colonies|agents|tools|services|managed-services)/);
    }
  });
});
