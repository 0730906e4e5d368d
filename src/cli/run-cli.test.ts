import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CoralError } from "../base/errors.ts";
import { statusAnswer } from "./answers.fixture.ts";
import { commandTable } from "./command-table.ts";
import { World } from "./daemon.fixture.ts";
import type { CommandSpec } from "./run/command-spec.ts";
import type { CliRuntime } from "./run/runtime.ts";
import { runCli } from "./run-cli.ts";

let world: World;
beforeEach(async () => {
  world = await World.create();
});
afterEach(() => world[Symbol.asyncDispose]());

describe("usage", () => {
  it.each([
    ["stauts", 'Unknown command "stauts"; did you mean "coral status"? see "coral --help"'],
    ["frobnicate", 'Unknown command "frobnicate"; see "coral --help"'],
    ["colony strat", 'Unknown command "colony strat"; did you mean "coral colony start"? see "coral colony --help"'],
    ["status --jsn", 'Unknown option "--jsn"; did you mean "--json"? see "coral status --help"'],
    ["status --colonny=x", 'Unknown option "--colonny=x"; did you mean "--colony"? see "coral status --help"'],
    ["init", 'Missing argument <app> of "coral init"; see "coral init --help"'],
    ["status --colony", 'Missing value of option --colony <name>; see "coral status --help"'],
    ["status -o xml", 'Cannot use --output "xml": allowed values: table, wide, json, yaml, csv; see "coral status --help"'],
    [
      "status -o jsno",
      'Cannot use --output "jsno": did you mean "json"? allowed values: table, wide, json, yaml, csv; see "coral status --help"',
    ],
    ["completion tcsh", 'Cannot use <shell> "tcsh": allowed values: bash, zsh, fish; see "coral completion --help"'],
    ["version a b", 'Too many arguments for "coral version"; see "coral version --help"'],
    ["query host --since 5", 'Cannot use --since "5": write a number with a unit, such as 250ms, 30s, 5m, 2h or 7d'],
    ["events --limit 0", 'Cannot use --limit "0": write a whole number from 1 to 1000'],
    ["init Shop", 'Cannot use application name "Shop": write 1 to 30 lower-case letters, digits and dashes, such as shop-api'],
    ["up --port 1 --listen :2", "Cannot use --port and --listen together: --listen includes the port"],
    ["up --port 70000", 'Cannot use --port "70000": write a whole number from 0 to 65535'],
  ])("coral %s", async (args, message) => {
    const colony = await world.startColony();
    const ran = await world.coral(args);
    expect(ran.stderr).toBe(`error: ${message}\n`);
    expect(ran.code).toBe(64);
    expect(ran.stdout).toBe("");
    expect(colony.calls).toEqual([]);
  });

  it.each(["ask why is checkout slow", "ask --help", "debug attach api", "profile api", "reef list"])(
    "reports a planned command as not available yet: coral %s",
    async (args) => {
      const ran = await world.coral(args);
      expect(ran.stderr).toMatch(new RegExp(`^error: "coral ${args.split(" ")[0]}" is not available yet; `));
      expect(ran).toMatchObject({ code: 2, stdout: "" });
    },
  );

  it("shows help on stdout for --help, and on stderr for a group without a command", async () => {
    for (const args of ["", "--help", "help", "help agent", "agent list --help", "colony token --help"]) {
      const ran = await world.coral(args);
      expect(ran.code).toBe(0);
      expect(ran.stdout).toContain("Usage: coral");
      expect(ran.stderr).toBe("");
    }
    expect((await world.coral("--version")).stdout).toMatch(/^coral \d/);
    const group = await world.coral("agent");
    expect(group).toMatchObject({ code: 64, stdout: "" });
    expect(group.stderr).toContain("Usage: coral agent");
  });

  it("has help with examples, no duplicate names and a module behind every command", async () => {
    const visit = async (spec: CommandSpec, path: string): Promise<void> => {
      const names = [...(spec.commands ?? []).map((command) => command.name), ...(spec.options ?? []).map((option) => `--${option.name}`)];
      expect(new Set(names).size, path).toBe(names.length);
      expect(spec.summary, path).not.toMatch(/\.$/);
      if (spec.load) expect(typeof (await spec.load()).run, path).toBe("function");
      else expect(spec.commands?.length, path).toBeGreaterThan(0);
      for (const child of spec.commands ?? []) await visit(child, `${path} ${child.name}`);
    };
    await visit(commandTable, "coral");
    expect((await world.coral("query host --help")).stdout).toContain("coral query host web-1 --since 2h");
  });
});

describe("errors", () => {
  it.each([
    ["usage", 64],
    ["invalid", 64],
    ["unsupported", 2],
    ["unauthenticated", 3],
    ["not-permitted", 3],
    ["not-found", 4],
    ["unavailable", 1],
    ["timeout", 1],
    ["internal", 1],
  ] as const)("a daemon's %s exits with %i and one line", async (code, exit) => {
    const colony = await world.startColony();
    colony.replies.set("POST /v1/tools/coral_get_status", () => {
      throw new CoralError({ code, message: "Cannot do it: \u001b[31mred" });
    });
    expect(await world.coral("status")).toEqual({ code: exit, stdout: "", stderr: "error: Cannot do it: \\x1b[31mred\n" });
  });

  it("show causes with --log-level debug or CORAL_LOG_LEVEL", async () => {
    const init = (): Promise<never> => {
      const cause = new Error("disk says no", { cause: new Error("EIO") });
      return Promise.reject(new CoralError({ code: "unavailable", message: "Cannot make a colony", cause }));
    };
    const plain = await world.coral("init shop", { runtime: { init } });
    expect(plain.stderr).toBe("error: Cannot make a colony\n");
    for (const ran of [
      await world.coral("init shop --log-level debug", { runtime: { init } }),
      await world.coral("init shop --log-level=debug", { runtime: { init } }),
      await world.coral("init shop", { runtime: { init }, env: { CORAL_LOG_LEVEL: "debug" } }),
    ]) {
      expect(ran.stderr).toContain("code: unavailable\n  caused by: Error: disk says no\n  caused by: Error: EIO\n  at ");
    }
  });

  it("show the first failure, not a later one during cleanup", async () => {
    const inner = new CoralError({ code: "not-permitted", message: "Cannot open the store: no" });
    const wrapped = Object.assign(new Error("An error was suppressed during disposal"), {
      name: "SuppressedError",
      suppressed: inner,
      error: new Error("close failed"),
    });
    const ran = await world.coral("init shop", { runtime: { init: () => Promise.reject(wrapped) } });
    expect(ran).toEqual({ code: 3, stdout: "", stderr: "error: Cannot open the store: no\n" });
  });

  it("are red on a terminal only", async () => {
    expect((await world.coral("stauts", { terminal: 80 })).stderr).toContain("\u001b[31merror:");
    expect((await world.coral("stauts --no-color", { terminal: 80 })).stderr).toMatch(/^error:/);
    expect((await world.coral("stauts", { terminal: 80, env: { NO_COLOR: "1" } })).stderr).toMatch(/^error:/);
  });
});

describe("no daemon", () => {
  it("names the command to run when there is no colony, when it is down, and when only an agent runs", async () => {
    const none = await world.coral("status");
    expect(none.code).toBe(4);
    expect(none.stderr).toContain('start one with "coral up", or make one with "coral init <app>"');

    await world.startAgent();
    expect((await world.coral("status")).stderr).toContain('this machine runs an agent, see "coral agent status"');

    const colony = await world.startColony();
    await colony[Symbol.asyncDispose]();
    const down = await world.coral("status");
    expect(down.code).toBe(1);
    expect(down.stderr).toBe(
      'error: Cannot reach colony "shop-dev": it is not running; start it with "coral colony start --colony shop-dev", or everything at once with "coral up"\n',
    );
  });

  it("names the command that starts the agent", async () => {
    const ran = await world.coral("agent status");
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain('start it with "coral agent start"');
  });
});

it("a closed pipe ends the command without an error", async () => {
  const colony = await world.startColony();
  colony.tool("coral_get_status", statusAnswer());
  const listeners: ((error: Error) => void)[] = [];
  let stderr = "";
  const code = await runCli(["node", "coral", "status", "--watch", "200ms"], {} as CliRuntime, {
    stdout: {
      write: () => {
        for (const listener of listeners) listener(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
      },
      on: (_event, listener) => listeners.push(listener),
    },
    stderr: {
      write: (text) => {
        stderr += text;
      },
    },
    stdin: { async *[Symbol.asyncIterator]() {} },
    env: { CORAL_HOME: world.home },
    signal: new AbortController().signal,
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});
