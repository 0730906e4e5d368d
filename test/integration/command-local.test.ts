/** Commands and terminals on the control socket of this machine's agent, which is a fake. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../src/base/log.ts";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import { type CliRuntime, runCli } from "../../src/cli/index.ts";
import { agentPaths } from "../../src/config/index.ts";
import { sampleRuntime, sampleSidecar } from "../../src/model/runtime-facts.fixture.ts";
import type { RuntimeFacts } from "../../src/model/runtime-facts.ts";
import { createHttpRoutes, localCommandRoute, startControlServer } from "../../src/transport/index.ts";
import { type PlayedCommands, playCommands } from "../support/command-double.ts";
import { waitFor } from "../support/wait-for.ts";

let stack: ResourceStack;
let home: string;
let agent: PlayedCommands;
let runtime: RuntimeFacts;

beforeEach(async () => {
  stack = new ResourceStack();
  home = mkdtempSync(join(tmpdir(), "coral-"));
  stack.defer(() => rmSync(home, { recursive: true, force: true }));
  agent = playCommands("here");
  runtime = sampleRuntime();
  stack.use(
    await startControlServer({
      path: agentPaths(home).socketFile,
      peerCredentials: undefined,
      log: silentLogger,
      http: createHttpRoutes({
        routes: [
          {
            kind: "json",
            method: "GET",
            path: "/v1/runtime",
            permission: "read",
            handle: () => ({ kind: "json", value: { runtime, changes: [], isTold: true } }),
          },
          {
            kind: "json",
            method: "GET",
            path: "/v1/status",
            permission: "read",
            handle: () => ({ kind: "json", value: { agentId: "a-1" } }),
          },
          localCommandRoute({
            agent: { agentId: "a-1", hostname: "here" },
            execute: agent.execute,
            refused: () => Promise.resolve(),
          }),
        ],
        authorize: () => ({ name: "local:uid=7" }),
        notReady: () => undefined,
        metrics: () => Promise.resolve(""),
        log: silentLogger,
      }),
    }),
  );
});

afterEach(async () => {
  await stack[Symbol.asyncDispose]();
});

/** A terminal that the test types into. */
class Terminal {
  stdout = "";
  stderr = "";
  columns = 80;
  rows = 24;
  isRaw = false;
  #type: ((data: Uint8Array) => void) | undefined;
  #resized: (() => void) | undefined;

  type(text: string): void {
    this.#type?.(Buffer.from(text));
  }

  resize(columns: number, rows: number): void {
    Object.assign(this, { columns, rows });
    this.#resized?.();
  }

  run(args: readonly string[], more: { isTTY?: boolean; stdin?: string } = {}): Promise<number> {
    const { isTTY = true } = more;
    const size = { columns: () => this.columns, rows: () => this.rows };
    return runCli(["node", "coral", ...args], {} as CliRuntime, {
      stdout: {
        write: (data) => {
          this.stdout += Buffer.from(data as string).toString("utf8");
        },
        isTTY,
        get columns() {
          return size.columns();
        },
        get rows() {
          return size.rows();
        },
      },
      stderr: {
        write: (data) => {
          this.stderr += Buffer.from(data as string).toString("utf8");
        },
      },
      stdin: Object.assign(
        (async function* () {
          await Promise.resolve();
          yield more.stdin ?? "";
        })(),
        { isTTY },
      ),
      env: { CORAL_HOME: home, TERM: "xterm-256color" },
      signal: new AbortController().signal,
      terminal: {
        readKeys: () => () => undefined,
        readBytes: (listener) => {
          this.isRaw = true;
          this.#type = listener;
          return () => {
            this.isRaw = false;
          };
        },
        onResize: (listener) => {
          this.#resized = listener;
          return () => undefined;
        },
      },
    });
  }
}

describe("coral exec without a target", () => {
  it("runs at this machine's agent, which identifies the caller by its socket", async () => {
    const terminal = new Terminal();
    expect(await terminal.run(["exec", "echo hi"])).toBe(0);
    expect(terminal.stdout).toBe("hi from here\n");
    expect(agent.orders[0]).toMatchObject({
      kind: "exec",
      text: "echo hi",
      target: { kind: "host" },
      caller: { name: "local:uid=7", through: "cli" },
    });
    expect(agent.orders[0]?.terminal).toBeUndefined();
    expect(await terminal.run(["exec", "--container", "web", "--", "exit", "9"])).toBe(9);
    expect(agent.orders[1]).toMatchObject({ argv: ["exit", "9"], target: { kind: "container", container: "web" } });
  });

  it("explains why it is not possible here", async () => {
    runtime = sampleSidecar("passive");
    const terminal = new Terminal();
    expect(await terminal.run(["shell"])).toBe(2);
    expect(terminal.stderr).toContain("Error: 'shell' not supported in K8s Sidecar (Passive) mode\n");
    expect(terminal.stderr).toContain("Agent: a-1\nRuntime: Kubernetes Sidecar\nMode: Passive (no CRI socket, no shared namespace)\n");
    expect(terminal.stderr).toContain("To enable shell, update pod spec:\n\n  Option 1 (Recommended): Mount CRI socket\n");
    expect(await terminal.run(["run", "--", "x"])).toBe(2);
    expect(terminal.stderr).toContain("Reason: sidecar is passive for launching");
    expect(agent.orders).toEqual([]);
  });

  it("waits for an approval, and prints the command that approves", async () => {
    const terminal = new Terminal();
    const running = terminal.run(["exec", "hold"]);
    await waitFor("the hint", () => terminal.stderr.includes("coral approval approve ap-1"));
    process.emit("SIGINT");
    expect(await running).toBe(130);
  });

  it("sends the first Ctrl-C to the command and exits on the second", async () => {
    const terminal = new Terminal();
    const running = terminal.run(["exec", "wait"]);
    await waitFor("the order", () => agent.orders.length === 1);
    process.emit("SIGINT");
    expect(await running).toBe(130);
    expect(agent.heard).toEqual(["signal INT"]);
    const stubborn = terminal.run(["exec", "stubborn"]);
    await waitFor("the order", () => agent.orders.length === 2);
    process.emit("SIGINT");
    process.emit("SIGINT");
    expect(await stubborn).toBe(130);
    await waitFor("the end there", () => agent.cancelled === 1);
  });
});

describe("coral shell", () => {
  it("forwards every key including Ctrl-C, sends its size, and restores the terminal", async () => {
    const terminal = new Terminal();
    const running = terminal.run(["shell", "--", "cat"]);
    await waitFor("a raw terminal", () => terminal.isRaw);
    terminal.type("ls\r");
    terminal.type("\u0003\u001b[A");
    await waitFor("the echo", () => terminal.stdout === "ls\r\u0003\u001b[A");
    terminal.resize(132, 50);
    await waitFor("the size", () => agent.heard.includes("resize 132x50"));
    expect(agent.orders[0]).toMatchObject({ kind: "shell", argv: ["cat"], terminal: { columns: 80, rows: 24, type: "xterm-256color" } });
    terminal.type("\r~");
    terminal.type(".");
    expect(await running).toBe(255);
    expect(terminal.isRaw).toBe(false);
    await waitFor("the end there", () => agent.cancelled === 1);
  });

  it("treats piped input as typed", async () => {
    const terminal = new Terminal();
    expect(await terminal.run(["shell", "--", "cat"], { isTTY: false, stdin: "exit\n" })).toBe(0);
    expect(terminal.stdout).toBe("exit\n");
  });
});

describe("coral run", () => {
  it("starts a program here, in this directory, under its name", async () => {
    const terminal = new Terminal();
    expect(await terminal.run(["run", "--name", "api", "--", "echo", "up"])).toBe(0);
    expect(terminal.stdout).toBe("up from here\n");
    expect(agent.orders[0]).toMatchObject({
      kind: "run",
      argv: ["echo", "up"],
      serviceName: "api",
      isDetached: false,
      workingDirectory: process.cwd(),
    });
    expect(await terminal.run(["run", "echo"])).toBe(64);
  });

  it("does not end a detached program", async () => {
    const terminal = new Terminal();
    expect(await terminal.run(["run", "--detach", "--", "wait"])).toBe(0);
    expect(agent.orders[0]).toMatchObject({ isDetached: true });
    expect(terminal.stderr).toContain("wait keeps running as pid 42");
  });
});
