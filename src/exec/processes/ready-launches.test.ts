import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import type { Readable } from "node:stream";
import { afterEach, describe, expect, it, vi } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { type CommandGroups, openCommandGroups } from "./command-groups.ts";
import { launchOrder } from "./launch-argv.ts";
import { type ExpectedCommand, ReadyLaunches } from "./ready-launches.ts";
import { createSpawner, type Spawner } from "./spawner.ts";

const isRoot = process.getuid?.() === 0;
const nobody = { uid: 65_534, gid: 65_534 };
const plain = { dropStdout: false, dropStderr: false, stderrToStdout: false };
const expected = (change: Partial<ExpectedCommand> = {}): ExpectedCommand => ({
  user: isRoot ? nobody : undefined,
  environment: { PATH: "/usr/bin:/bin", A: "b" },
  limits: { memoryBytes: 512 * 1024 ** 2, cpus: 1, processes: 32 },
  readOnly: undefined,
  mayMark: isRoot,
  ...change,
});

interface Bench extends AsyncDisposable {
  ready: ReadyLaunches;
  groups: CommandGroups;
  spawner: Spawner;
}

const opened: Bench[] = [];
function open(groups: CommandGroups = openCommandGroups({ log: silentLogger })): Bench {
  const spawner = createSpawner(silentLogger);
  const ready = new ReadyLaunches({ spawner, groups: () => groups, log: silentLogger });
  const dispose = async (): Promise<void> => {
    await ready[Symbol.asyncDispose]();
    spawner[Symbol.dispose]();
    groups.close();
  };
  const bench = { ready, groups, spawner, [Symbol.asyncDispose]: dispose };
  opened.push(bench);
  return bench;
}
afterEach(async () => {
  for (const bench of opened.splice(0)) await bench[Symbol.asyncDispose]();
});

async function textOf(stream: Readable): Promise<string> {
  let text = "";
  for await (const chunk of stream as AsyncIterable<Buffer>) text += chunk.toString();
  return text;
}

async function run({ ready }: Bench, file: string, args: string[], more: Partial<Parameters<typeof launchOrder>[1]> = {}) {
  await vi.waitFor(() => expect(ready.size).toBeGreaterThan(0));
  const launch = ready.take(expected());
  const commandId = randomUUID();
  const order = launchOrder(commandId, { file, args, redirections: plain, workingDirectory: "", ...more });
  if (!launch || order === undefined) throw new Error("There is none");
  launch.begin(order);
  const { programs, stdin, stdout } = launch.spawned;
  stdin.end();
  const [out, err, exit] = await Promise.all([textOf(stdout), textOf(programs[0]!.stderr), programs[0]!.exited]);
  return { commandId, out, err, exit, launch };
}

describe("ReadyLaunches", () => {
  it("has no prepared launch for the first command, and some for later ones", async () => {
    const bench = open();
    expect(bench.ready.take(expected())).toBeUndefined();
    const { out, exit } = await run(bench, "/bin/echo", ["hello"]);
    expect([out, exit]).toEqual(["hello\n", { code: 0, signal: null }]);
    await vi.waitFor(() => expect(bench.ready.size).toBe(3));
    expect(bench.ready.take(expected({ environment: {} }))).toBeUndefined();
    expect(bench.ready.take(expected({ limits: undefined }))).toBeUndefined();
  });

  it("passes every argument literally", async () => {
    const bench = open();
    bench.ready.take(expected());
    const words = [
      "$(id)",
      "`id`",
      "a  b",
      " lead",
      "trail ",
      "\\",
      "a\\",
      "=x",
      ".n",
      "",
      "'",
      '"',
      "*",
      "~",
      "$IFS",
      "é\u{1f980}",
      "\t",
      "-n",
      "--",
    ];
    const { out } = await run(bench, "/usr/bin/printf", ["%s\\0", ...words]);
    expect(out.split("\0").slice(0, -1)).toEqual(words);
  });

  it("adds only the command's marker to the environment and leaves no descriptor open", async () => {
    const bench = open();
    bench.ready.take(expected());
    const { out, commandId } = await run(bench, "/usr/bin/env", []);
    // Some shells set these themselves.
    const lines = out.split("\n").filter((line) => line !== "" && !/^(?:PWD|OLDPWD|SHLVL|_)=/.test(line));
    expect(lines.sort()).toEqual(["A=b", `CORAL_COMMAND_ID=${commandId}`, "PATH=/usr/bin:/bin"]);
    const direct = await bench.spawner.start({ programs: [["/bin/ls", "/proc/self/fd"]], environment: {} });
    expect((await run(bench, "/bin/ls", ["/proc/self/fd"])).out).toBe(await textOf(direct.stdout));
  });

  it("redirects, changes the directory and reports the exit status", async () => {
    const bench = open();
    bench.ready.take(expected());
    const both = ["-c", "pwd; echo x >&2; exit 3"];
    const moved = await run(bench, "/bin/sh", both, { workingDirectory: "/usr", redirections: { ...plain, stderrToStdout: true } });
    expect(moved).toMatchObject({ out: "/usr\nx\n", err: "", exit: { code: 3 } });
    const silent = await run(bench, "/bin/sh", both, { redirections: { ...plain, dropStdout: true } });
    expect(silent).toMatchObject({ out: "", err: "x\n" });
    expect(await run(bench, "/bin/true", [], { workingDirectory: "/no/such" })).toMatchObject({ exit: { code: 125 } });
  });

  it.runIf(isRoot)("drops all privileges before it receives a command", async () => {
    const bench = open();
    bench.ready.take(expected());
    const { out } = await run(bench, "/bin/cat", ["/proc/self/status"]);
    expect(out).toMatch(/^Uid:\t65534\t65534\t65534\t65534$/m);
    expect(out).toMatch(/^Gid:\t65534\t65534\t65534\t65534$/m);
    expect(out).toMatch(/^Groups:\t ?$/m);
    expect(out).toMatch(/^NoNewPrivs:\t1$/m);
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]) expect(out).toMatch(new RegExp(`^${set}:\t0+$`, "m"));
  });

  it.runIf(isRoot)("marks processes where cgroups are unavailable", async () => {
    const bench = open({ parents: [], limited: [], create: async () => undefined, close: () => undefined });
    bench.ready.take(expected());
    const { out, launch } = await run(bench, "/bin/cat", ["/proc/self/status"]);
    expect(out).toMatch(new RegExp(`^Groups:\t${launch.markGroupId} ?$`, "m"));
  });

  it("leaves no process and no cgroup behind", async () => {
    const bench = open();
    bench.ready.take(expected());
    await vi.waitFor(() => expect(bench.ready.size).toBe(3));
    const launch = bench.ready.take(expected());
    const pid = launch?.spawned.programs[0]?.pid ?? 0;
    // The agent may exit before it sends a command.
    launch?.spawned.orders?.end("=half an order\n");
    expect(await launch?.spawned.programs[0]?.exited).toMatchObject({ code: 125 });
    await bench[Symbol.asyncDispose]();
    expect(bench.ready.size).toBe(0);
    expect(existsSync(`/proc/${pid}`)).toBe(false);
    await vi.waitFor(() => expect(bench.groups.parents.filter((parent) => existsSync(parent))).toEqual([]));
  });

  it("never hands out a launch that has exited", async () => {
    const bench = open();
    bench.ready.take(expected());
    await vi.waitFor(() => expect(bench.ready.size).toBe(3));
    const first = bench.ready.take(expected());
    bench.spawner[Symbol.dispose]();
    await first?.spawned.programs[0]?.exited;
    await vi.waitFor(() => expect(bench.ready.size).toBe(0));
  });
});

describe("launchOrder()", () => {
  it("returns undefined for arguments that do not fit the line protocol", () => {
    const order = (args: string[]) => launchOrder("id", { file: "/bin/x", args, redirections: plain, workingDirectory: "" });
    expect(order(["a"])).toBe("=id\n=\n=/bin/x\n=a\n.n\n");
    expect(order(["a\nb"])).toBeUndefined();
    expect(order(["x".repeat(20_000)])).toBeUndefined();
    expect(order(Array.from({ length: 300 }, () => "x"))).toBeUndefined();
  });
});
