/** `coral shell` on a real terminal that is driven by a script: prompts, sizes, signals, programs that draw on the whole screen. */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import { isRoot } from "../support/as-user.ts";
import { type AgentDaemon, startAgent, startColony } from "../support/daemon.ts";
import { DrivenTerminal } from "../support/terminal.ts";
import { makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

let stack: ResourceStack;
let home: string;
let agent: AgentDaemon;

beforeAll(async () => {
  stack = new ResourceStack();
  home = stack.use(makeTestHome()).path;
  const colony = stack.use(await startColony({ home }));
  void colony;
  agent = stack.use(
    await startAgent({ home, config: `exec:\n  profile: full\n${isRoot ? "  run_as: root\n" : ""}otlp:\n  enabled: false\n` }),
  );
  await agent.waitUntilConnected();
});

afterAll(async () => {
  await stack[Symbol.asyncDispose]();
});

const escape = "\u001b";
const prompt = /[$#] $/;
const hasProgram = (name: string): boolean => {
  try {
    execFileSync("which", [name], { stdio: "ignore" });
    return true;
  } catch {
    // Not installed here.
    return false;
  }
};

function openShell(...args: string[]): DrivenTerminal {
  return new DrivenTerminal(["shell", ...args], { home });
}

it.each([
  ["through the colony", ["--all"]],
  ["at this machine's agent", []],
])("coral shell %s is a terminal of the right size", async (_name, target) => {
  using terminal = openShell(...target, "--", "sh");
  await terminal.shows(prompt);
  terminal.type("stty size; test -t 0 && test -t 1 && test -t 2 && echo is-$((1+1))-tty\r");
  await terminal.shows(/30 100\r\n[^]*is-2-tty/);
  terminal.resize(132, 43);
  await waitFor("the size to arrive", async () => {
    terminal.type("stty size\r");
    return /43 132/.test(await terminal.shows(/\d+ \d+\r\n/));
  });
  terminal.type("printf '\\033[31mred\\033[0m\\n'\r");
  await terminal.shows(new RegExp(`${escape}\\[31mred${escape}\\[0m`));
  // Programs that draw go down a line without going back to its beginning.
  terminal.type("stty -opost; printf 'down\\nward\\n'; stty opost\r");
  await terminal.shows(/down\nward\n/);
  terminal.type("exit 5\r");
  expect(await terminal.ended).toEqual({ code: 5, signal: 0 });
});

it("Ctrl-C ends the program in the terminal, not the terminal; Ctrl-D ends it", async () => {
  using terminal = openShell("--all", "--", "sh");
  await terminal.shows(prompt);
  terminal.type("sleep 96100\r");
  await waitFor("sleep", () => execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }).split("\n").includes("sleep 96100"));
  terminal.type("\u0003");
  await terminal.shows(/\^C[^]*[$#] $/);
  terminal.type("echo st$((1+1))ll here\r");
  await terminal.shows(/st2ll here/);
  terminal.type("\u0004");
  expect((await terminal.ended).signal).toBe(0);
});

it("Enter ~ . hangs up and ends what runs there", async () => {
  using terminal = openShell("--all", "--", "sh");
  await terminal.shows(prompt);
  terminal.type("sleep 96101\r");
  await waitFor("sleep", () => execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }).split("\n").includes("sleep 96101"));
  terminal.type("\r~.");
  expect(await terminal.ended).toEqual({ code: 255, signal: 0 });
  await waitFor("its end", () => !execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }).split("\n").includes("sleep 96101"));
});

it.skipIf(!hasProgram("top"))("top draws, follows the size, and ends", async () => {
  using terminal = openShell("--all", "--", "sh");
  await terminal.shows(prompt);
  terminal.type("top -d 1\r");
  await terminal.shows(/load average/);
  terminal.resize(80, 20);
  await terminal.shows(/load average/);
  terminal.type("q");
  await terminal.shows(prompt);
  terminal.type("exit\r");
  expect((await terminal.ended).code).toBe(0);
});

it.skipIf(!hasProgram("vim"))("vim edits a file", async () => {
  const file = join(home, "note.txt");
  using terminal = openShell("--all", "--", "sh");
  await terminal.shows(prompt);
  terminal.type(`vim -u NONE -N ${file}\r`);
  await terminal.shows(/note\.txt/);
  terminal.type("ihello w\u00f6rld");
  terminal.type("\u001b");
  terminal.resize(90, 25);
  terminal.type(":wq\r");
  await waitFor("the file", () => existsSync(file));
  await terminal.shows(prompt);
  expect(readFileSync(file, "utf8")).toBe("hello wörld\n");
  terminal.type("exit\r");
  expect((await terminal.ended).code).toBe(0);
});

it("leaves the user's own terminal as it was", async () => {
  const script = 'echo "before $(stty -g)"; "$@"; echo "code $? after $(stty -g)"';
  using terminal = new DrivenTerminal(["shell", "--all", "--", "sh", "-c", "sleep 1; exit 3"], { home, script });
  await terminal.ended;
  const [, before] = /before (\S+)/.exec(terminal.output) ?? [];
  expect(before).toBeDefined();
  expect(terminal.output).toContain(`code 3 after ${before}`);
});
