/** Commands from the command line through a real colony and real tunnels to fake agents. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BoundedChannel } from "../../src/base/bounded-channel.ts";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import { type CliRuntime, runCli } from "../../src/cli/index.ts";
import type { ExecuteRequestSchema, ExecuteResponse } from "../../src/proto/coral/agent/v1/commands_pb.ts";
import type { AuditList, CommandResult, ResolvedTargets } from "../../src/tools/index.ts";
import { connectCommandService } from "../../src/transport/commands/command-client.ts";
import { reviveConnectError } from "../../src/transport/http/rpc-errors.ts";
import type { CommandOrderInit } from "../../src/transport/index.ts";
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

type Request = MessageInitShape<typeof ExecuteRequestSchema>;

/** A client of CommandService that sends the given messages. */
async function call(...first: Request[]) {
  const { client, session } = await connectCommandService({ target: { kind: "unix", path: colony.colony.socketFile } });
  stack.defer(() => session.destroy());
  const requests = new BoundedChannel<Request>(10);
  for (const request of first) requests.offer(request);
  const responses = client.execute(requests)[Symbol.asyncIterator]();
  const next = async (wanted: ExecuteResponse["event"]["case"]): Promise<ExecuteResponse> => {
    for (;;) {
      const { done, value } = await responses.next();
      if (done) throw new Error("the responses have ended");
      if (value.event.case === wanted) return value;
    }
  };
  /** The daemon's error. */
  const refusal = async (): Promise<unknown> => {
    try {
      for (;;) if ((await responses.next()).done) throw new Error("the responses have ended");
    } catch (error) {
      return reviveConnectError(error) ?? error;
    }
  };
  return { send: (request: Request) => requests.offer(request), next, refusal, responses, hangUp: () => session.destroy() };
}

const order = (argv: string[], more: CommandOrderInit = {}): Request => ({
  message: { case: "order", value: { kind: "exec", argv, targets: { all: true }, ...more } },
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
    expect(ran.stderr).toBe("2 of 2 agents succeeded\n");
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
    expect(ran).toMatchObject({ code: 0, stdout: "hi from web-1\n", stderr: expect.stringContaining("web-2 was skipped: not connected") });
  });

  it("ends the command when its caller disconnects", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    const { next, hangUp } = await call(order(["wait"]));
    await next("started");
    hangUp();
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

describe("CommandService.Execute", () => {
  it("passes signals and sizes while input is blocked", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    const { send, next } = await call(order(["wait"], { kind: "shell", terminal: { columns: 80, rows: 24, type: "xterm" } }));
    await next("started");
    expect(web.orders[0]?.terminal).toMatchObject({ columns: 80, rows: 24, type: "xterm" });
    send({ message: { case: "input", value: Buffer.alloc(200 * 1024) } });
    send({ message: { case: "resize", value: { columns: 120, rows: 40 } } });
    await waitFor("the size", () => web.heard.includes("resize 120x40"));
    send({ message: { case: "signal", value: "INT" } });
    expect(await next("ended")).toMatchObject({ event: { value: { reason: "signalled", signal: "INT" } } });
  });

  it("applies backpressure to one call without stopping the agent's other calls", async () => {
    const web = await startAgent("web-1");
    await allConnected(1);
    const { responses } = await call(order(["flood", String(32 * 1024 * 1024)]));
    const first = responses.next();
    await waitFor("the order", () => web.orders.length === 1);
    const before = web.agent.pulls;
    await waitFor("pulls", () => web.agent.pulls > before + 3);
    let sizeBytes = 0;
    for (let next = await first; !next.done; next = await responses.next()) {
      if (next.value.event.case === "output") sizeBytes += next.value.event.value.data.length;
    }
    expect(sizeBytes).toBe(32 * 1024 * 1024);
  });

  it.each<[string, Request, string]>([
    ["a first message that is not an order", { message: { case: "resize", value: { columns: 1, rows: 1 } } }, "invalid"],
    ["an unknown kind", order(["x"], { kind: "fly" }), "invalid"],
    ["no targets", { message: { case: "order", value: { kind: "exec", text: "x" } } }, "usage"],
    ["argv and text", order(["y"], { text: "x" }), "invalid"],
    ["neither argv nor text", order([]), "invalid"],
    ["a zero byte", order(["a\0b"]), "invalid"],
    ["a terminal without columns", order(["x"], { terminal: { columns: 0, rows: 24 } }), "invalid"],
    ["targets without agents", order(["x"]), "not-found"],
  ])("refuses %s", async (_name, request, code) => {
    const { refusal } = await call(request);
    expect(await refusal()).toMatchObject({ code });
  });

  it("audits orders that cannot be read", async () => {
    for (const request of [order(["cat", "/etc/sha\0dow"], { caller: { through: "cli" } }), order(["x"], { kind: "fly" })]) {
      const { refusal } = await call(request);
      await refusal();
    }
    const { records } = await colony.tool<AuditList>("coral_list_audit", {});
    expect(records.map(({ phase, caller, through, reason }) => [phase, caller, through, reason])).toEqual([
      ["denied", expect.stringMatching(/^local:/), "http", "Cannot read the command: kind must be one of exec, shell, run"],
      ["denied", expect.stringMatching(/^local:/), "cli", "Cannot read the command: argv[1] contains a zero byte"],
    ]);
  });

  it("exits with 75 when the agent runs as many commands as it may", async () => {
    await startAgent("web-1");
    await allConnected(1);
    expect(await coral(["exec", "--all", "exhausted"])).toMatchObject({ code: 75, stderr: expect.stringContaining("exec.max_running") });
  });

  it("refuses input beyond the credit", async () => {
    await startAgent("web-1");
    await allConnected(1);
    const { refusal } = await call(order(["wait"]), { message: { case: "input", value: Buffer.alloc(300 * 1024) } });
    expect(await refusal()).toMatchObject({ code: "exhausted" });
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
