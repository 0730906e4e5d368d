/** Commands from the command line through a real colony and real tunnels to fake agents. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import { type CliRuntime, runCli } from "../../src/cli/index.ts";
import type { CommandResult, ResolvedTargets } from "../../src/tools/index.ts";
import { type CommandAsk, type DaemonMessage, type Frame, type FrameStream, requestFrames } from "../../src/transport/index.ts";
import { type PlayedCommands, playCommands } from "../support/command-double.ts";
import { InProcessColony, type RegistrationChanges, ScriptedAgent } from "../support/in-process-colony.ts";
import { waitFor } from "../support/wait-for.ts";

let stack: ResourceStack;
let colony: InProcessColony;

beforeEach(async () => {
  stack = new ResourceStack();
  colony = stack.use(await InProcessColony.start());
});

afterEach(async () => {
  await stack[Symbol.asyncDispose]();
});

async function startAgent(agentId: string, register: RegistrationChanges = {}): Promise<PlayedCommands & { agent: ScriptedAgent }> {
  const played = playCommands(agentId);
  const identity = await colony.join(agentId);
  const agent = await ScriptedAgent.connect(colony, { identity, pull: () => ({ epoch: "e" }), execute: played.execute, register });
  stack.use(agent);
  return Object.assign(played, { agent });
}

async function allConnected(count: number): Promise<void> {
  await waitFor(`${count} connected agents`, async () => {
    const { usable } = await colony.tool<ResolvedTargets>("coral_resolve_targets", { all: true });
    return usable === count;
  });
}

interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

async function coral(
  args: readonly string[],
  more: { stdin?: string; signal?: AbortSignal; onOutput?: (text: string) => void } = {},
): Promise<Ran> {
  const ran = { stdout: "", stderr: "" };
  const sink = (name: "stdout" | "stderr") => ({
    write: (data: string | Uint8Array) => {
      const text = typeof data === "string" ? data : Buffer.from(data).toString("latin1");
      ran[name] += text;
      more.onOutput?.(text);
    },
  });
  const stdin = {
    async *[Symbol.asyncIterator]() {
      await Promise.resolve();
      yield more.stdin ?? "";
    },
  };
  const code = await runCli(["node", "coral", ...args], {} as CliRuntime, {
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    stdin,
    env: { CORAL_HOME: colony.home },
    signal: more.signal ?? new AbortController().signal,
  });
  return { code, ...ran };
}

const open = (): Promise<FrameStream> => requestFrames({ target: { kind: "unix", path: colony.colony.socketFile }, path: "/v1/commands" });
const ask = (argv: string[], more: Partial<CommandAsk> = {}): { kind: "control"; value: CommandAsk } => ({
  kind: "control",
  value: { kind: "command", command: "exec", argv, targets: { all: true }, ...more },
});

describe("coral exec", () => {
  it("runs at one agent with argv, output and exit code, and passes the caller", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    const ran = await coral(["exec", "--agent", "web-1", "--cwd", "/tmp", "-e", "A=b=c", "--timeout", "5s", "--", "echo", "a b", "$x"]);
    expect(ran).toEqual({ code: 0, stdout: "a b $x from web-1\n", stderr: "" });
    expect(web.orders[0]).toMatchObject({
      kind: "exec",
      argv: ["echo", "a b", "$x"],
      text: "",
      target: { kind: "host" },
      workingDirectory: "/tmp",
      environment: { A: "b=c" },
      timeoutMs: 5_000n,
      caller: { name: `local:uid=${process.getuid?.()}`, through: "cli", from: `socket pid=${process.pid}` },
    });
    expect(web.orders[0]?.commandId).toMatch(/^[0-9a-f-]{36}$/);
    expect((await coral(["exec", "--agent", "web-1", "exit 7"])).code).toBe(7);
    expect(web.orders[1]).toMatchObject({ text: "exit 7", argv: [] });
  });

  it("runs at several agents at once, prefixes their lines, and fails when one does", async () => {
    await startAgent("web-1");
    await startAgent("database-1");
    await allConnected(2);
    const ran = await coral(["exec", "--all", "echo hi"]);
    expect(ran.code).toBe(0);
    expect(ran.stdout.split("\n").sort()).toEqual(["", "database-1 | hi from database-1", "web-1      | hi from web-1"]);
    expect(ran.stderr).toBe("2 of 2 agents ended with exit 0\n");
    const failed = await coral(["exec", "--agent", "web-1", "--agent", "database-1", "fail"]);
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain("web-1      | no good\n");
    expect(failed.stderr).toContain("error: web-1: exit 1\n");
  });

  it("prints one JSON object per line", async () => {
    await startAgent("web-1");
    await allConnected(1);
    const { code, stdout } = await coral(["exec", "--all", "--json", "bytes"]);
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(code).toBe(0);
    expect(lines.map((line) => line["kind"])).toEqual(["routed", "started", "output", "ended"]);
    expect(lines[2]).toMatchObject({ agentId: "web-1", hostname: "web-1", stream: "stdout" });
    expect(Buffer.from(String(lines[2]?.["base64"]), "base64")).toEqual(Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)));
    expect(lines[3]).toMatchObject({ reason: "exited", exitCode: 0 });
  });

  it("passes bytes unchanged in both directions, beyond the flow-control window", async () => {
    await startAgent("web-1");
    await allConnected(1);
    const { stdout } = await coral(["exec", "--all", "bytes"]);
    expect(Buffer.from(stdout, "latin1")).toEqual(Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)));
    const text = "0123456789".repeat(150_000);
    const echoed = await coral(["exec", "--all", "-i", "cat"], { stdin: text });
    expect(echoed.code).toBe(0);
    expect(echoed.stdout === text).toBe(true);
  });

  it("maps refusals to the documented exit codes", async () => {
    await startAgent("web-1");
    await startAgent("old-1").then(({ agent }) => agent.tunnel.close("gone"));
    await allConnected(1);
    const denied = await coral(["exec", "--agent", "web-1", "deny"]);
    expect(denied).toMatchObject({ code: 3, stderr: 'error: denied: Cannot run "deny" at web-1: no rule allows it\n' });
    expect((await coral(["exec", "--agent", "nobody", "echo"])).code).toBe(4);
    expect((await coral(["exec", "nothing", "echo"])).code).toBe(4);
    expect((await coral(["exec", "a", "b", "c"])).code).toBe(64);
    expect((await coral(["exec"])).code).toBe(64);
    const refused = await coral(["exec", "--agent", "old-1", "echo"]);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("not connected") });
    const local = await coral(["exec", "echo"]);
    expect(local).toMatchObject({ code: 1, stderr: expect.stringContaining("Cannot reach the agent: none is running") });
  });

  it("skips and reports disconnected agents", async () => {
    await startAgent("web-1");
    const { agent } = await startAgent("web-2");
    await allConnected(2);
    await agent.tunnel.close("gone");
    await allConnected(1);
    const ran = await coral(["exec", "--all", "echo hi"]);
    expect(ran).toMatchObject({ code: 0, stdout: "hi from web-1\n", stderr: expect.stringContaining("web-2 is left out: not connected") });
  });

  it("ends the command when its caller disconnects", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    const frames = await open();
    await frames.send(ask(["wait"]));
    await waitFor("the order", () => web.orders.length === 1);
    frames.destroy();
    await waitFor("the cancellation", () => web.cancelled === 1);
  });

  it("exits with 255 when the agent is lost during the command", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    const running = coral(["exec", "--all", "wait"]);
    await waitFor("the order", () => web.orders.length === 1);
    await web.agent.tunnel.close("gone");
    expect(await running).toMatchObject({ code: 255, stderr: expect.stringContaining("the connection to the agent was lost") });
  });

  it("exits with 255 when the colony is lost during the command", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    const running = coral(["exec", "--all", "wait"]);
    await waitFor("the order", () => web.orders.length === 1);
    const closing = colony[Symbol.asyncDispose]();
    expect(await running).toMatchObject({ code: 255, stderr: expect.stringContaining("the connection to the agent was lost") });
    await closing;
  });

  it("reports an agent that does not support commands", async () => {
    const identity = await colony.join("old-1");
    stack.use(await ScriptedAgent.connect(colony, { identity, pull: () => ({ epoch: "e" }) }));
    await allConnected(1);
    const ran = await coral(["exec", "--all", "echo"]);
    expect(ran).toMatchObject({ code: 2, stderr: "error: the agent does not know this command; update it\n" });
  });
});

/** Frames up to the first match. */
async function until(frames: AsyncIterator<Frame>, fits: (frame: Frame) => boolean): Promise<Frame> {
  for (;;) {
    const { done, value } = await frames.next();
    if (done) throw new Error("the frames have ended");
    if (fits(value)) return value;
  }
}

const isMessage =
  (kind: DaemonMessage["kind"]) =>
  (frame: Frame): boolean =>
    frame.kind === "control" && (frame.value as DaemonMessage).kind === kind;

describe("POST /v1/commands", () => {
  it("passes signals and sizes while input is blocked", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    await using frames = await open();
    const iterator = frames[Symbol.asyncIterator]();
    await frames.send(ask(["wait"], { command: "shell", terminal: { columns: 80, rows: 24, type: "xterm" } }));
    await until(iterator, isMessage("started"));
    expect(web.orders[0]?.terminal).toMatchObject({ columns: 80, rows: 24, type: "xterm" });
    await frames.send({ kind: "control", value: { kind: "resize", columns: 120, rows: 40 } });
    await waitFor("the size", () => web.heard.includes("resize 120x40"));
    await frames.send({ kind: "control", value: { kind: "signal", signal: "INT" } });
    const end = await until(iterator, isMessage("target-ended"));
    expect(end).toMatchObject({ value: { reason: "signalled", signal: "INT" } });
  });

  it("applies backpressure to one call without stopping the agent's other calls", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    await using frames = await open();
    await frames.send(ask(["flood", String(32 * 1024 * 1024)]));
    await waitFor("the order", () => web.orders.length === 1);
    const before = web.agent.pulls;
    await waitFor("pulls", () => web.agent.pulls > before + 3);
    let sizeBytes = 0;
    for await (const frame of frames) if (frame.kind === "data") sizeBytes += frame.data.length;
    expect(sizeBytes).toBe(32 * 1024 * 1024);
  });

  it.each<[string, unknown, string]>([
    ["no command", { kind: "resize", columns: 1, rows: 1 }, "invalid"],
    ["no targets", { kind: "command", command: "exec", text: "x" }, "usage"],
    ["words and a text", { kind: "command", command: "exec", text: "x", argv: ["y"], targets: { all: true } }, "invalid"],
    ["a zero byte", { kind: "command", command: "exec", argv: ["a\0b"], targets: { all: true } }, "invalid"],
    ["nobody", { kind: "command", command: "exec", text: "x", targets: { all: true } }, "not-found"],
  ])("refuses %s", async (_name, value, code) => {
    await using frames = await open();
    await frames.send({ kind: "control", value });
    const answer = await until(frames[Symbol.asyncIterator](), () => true);
    expect(answer).toMatchObject({ kind: "control", value: { kind: "error", error: { code } } });
  });

  it("refuses input beyond the flow-control window", async () => {
    await startAgent("web-1");
    await allConnected(1);
    await using frames = await open();
    await frames.send(ask(["wait"]));
    await frames.send({ kind: "data", data: Buffer.alloc(300 * 1024) });
    expect(await until(frames[Symbol.asyncIterator](), isMessage("error"))).toMatchObject({ value: { error: { code: "exhausted" } } });
  });

  it("reaches 20 agents at once", async () => {
    const agents: PlayedCommands[] = [];
    for (let index = 0; index < 20; index++) agents.push(await startAgent(`agent-${index}`));
    await allConnected(20);
    const ran = await coral(["exec", "--all", "echo hi"]);
    expect(ran.code).toBe(0);
    expect(ran.stdout.split("\n")).toHaveLength(21);
    expect(agents.every((agent) => agent.orders.length === 1)).toBe(true);
  });
});

describe("coral_agent_exec", () => {
  it("returns bounded output and exit code, read-only by default", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    const { outcomes } = await colony.tool<CommandResult>("coral_agent_exec", {
      agents: ["web-1"],
      command: "flood 100000",
      maxOutputBytes: 10,
    });
    expect(outcomes).toMatchObject([
      { agentId: "web-1", reason: "exited", exitCode: 0, stdout: "xxxxxxxxxx", cutBytes: 99_990, user: "nobody" },
    ]);
    expect(web.orders[0]).toMatchObject({ readOnly: true, text: "flood 100000", timeoutMs: 20_000n, caller: { through: "cli" } });
    await expect(colony.tool("coral_agent_exec", { agents: ["web-1"], command: "deny" })).rejects.toMatchObject({ code: "not-permitted" });
  });
});
