/** A fake daemon with canned answers on a real unix socket, and a helper to run commands against it. */

import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { CoralError, httpStatusOf } from "../base/errors.ts";
import { agentPaths, colonyPaths, saveContext } from "../config/index.ts";
import type { TerminalControl } from "./output/cli-io.ts";
import type { CliRuntime } from "./run/runtime.ts";
import { runCli } from "./run-cli.ts";

export type Reply = (body: unknown) => unknown;

export class FakeDaemon implements AsyncDisposable {
  /** `POST /v1/tools/coral_get_status` → answer; may throw a CoralError. */
  readonly replies = new Map<string, Reply>();
  /** `POST /v1/captures` → lines to stream; `hungUp` resolves when the caller disconnects. */
  readonly streams = new Map<string, (body: unknown, hungUp: Promise<void>) => AsyncIterable<unknown>>();
  readonly calls: { route: string; body: unknown }[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async listen(socketFile: string): Promise<FakeDaemon> {
    await mkdir(dirname(socketFile), { recursive: true });
    const server = createServer();
    const daemon = new FakeDaemon(server);
    server.on("request", (request, response) => {
      let text = "";
      request.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      request.on("end", () => {
        const route = `${request.method} ${request.url}`;
        const body: unknown = text === "" ? undefined : JSON.parse(text);
        daemon.calls.push({ route, body });
        const stream = daemon.streams.get(route);
        if (stream) {
          void sendLines(response, stream, body);
          return;
        }
        const { status, value } = daemon.#answer(route, body);
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
      });
    });
    server.listen(socketFile);
    await once(server, "listening");
    return daemon;
  }

  tool(name: string, answer: object): this {
    const complete = { completeness: { complete: true, notes: [] }, ...answer };
    this.replies.set(`POST /v1/tools/${name}`, () => complete);
    return this;
  }

  #answer(route: string, body: unknown): { status: number; value: unknown } {
    try {
      const reply = this.replies.get(route);
      if (!reply) throw new CoralError({ code: "not-found", message: `Cannot serve ${route}` });
      return { status: 200, value: reply(body) };
    } catch (error) {
      const { code, message, details } = CoralError.from(error);
      return { status: httpStatusOf(code), value: { error: { code, message, details } } };
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await Promise.resolve();
  }
}

async function sendLines(response: ServerResponse, stream: NonNullable<ReturnType<FakeDaemon["streams"]["get"]>>, body: unknown) {
  response.writeHead(200, { "content-type": "application/x-ndjson" }).flushHeaders();
  const hungUp = once(response, "close").then(() => undefined);
  for await (const line of stream(body, hungUp)) response.write(`${JSON.stringify(line)}\n`);
  response.end();
}

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

export interface RunSettings {
  /** Default: the world's home, and no other variable. */
  env?: Record<string, string>;
  /** Makes stdout and stderr a terminal of this width. */
  terminal?: number;
  rows?: number;
  control?: TerminalControl;
  stdin?: string;
  runtime?: Partial<CliRuntime>;
  signal?: AbortSignal;
  /** Called for each write to stdout. */
  onOutput?: (text: string) => void;
}

/** A temporary CORAL_HOME with one colony and its context. */
export class World implements AsyncDisposable {
  readonly home: string;
  readonly colonyId = "shop-dev-1a2b3c";
  readonly #daemons: FakeDaemon[] = [];

  private constructor(home: string) {
    this.home = home;
  }

  static async create(): Promise<World> {
    return new World(await mkdtemp(join(tmpdir(), "coral-cli-")));
  }

  async startColony(): Promise<FakeDaemon> {
    await saveContext(this.home, { name: "shop-dev", colonyId: this.colonyId });
    return this.#keep(await FakeDaemon.listen(colonyPaths(this.home, this.colonyId).socketFile));
  }

  async startAgent(): Promise<FakeDaemon> {
    return this.#keep(await FakeDaemon.listen(agentPaths(this.home).socketFile));
  }

  async coral(args: string | readonly string[], settings: RunSettings = {}): Promise<Ran> {
    const words = typeof args === "string" ? args.split(" ").filter((word) => word !== "") : args;
    const isTTY = settings.terminal !== undefined;
    let stdout = "";
    let stderr = "";
    const code = await runCli(["node", "coral", ...words], fakeRuntime(settings.runtime), {
      stdout: {
        write: (data) => {
          const text = typeof data === "string" ? data : Buffer.from(data).toString("utf8");
          stdout += text;
          settings.onOutput?.(text);
        },
        isTTY,
        columns: settings.terminal,
        rows: settings.rows,
      },
      stderr: {
        write: (data) => {
          stderr += typeof data === "string" ? data : Buffer.from(data).toString("utf8");
        },
        isTTY,
      },
      stdin: stdinOf(settings.stdin ?? ""),
      env: { CORAL_HOME: this.home, ...settings.env },
      signal: settings.signal ?? new AbortController().signal,
      ...(settings.control ? { terminal: settings.control } : {}),
    });
    return { code, stdout, stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const daemon of this.#daemons) await daemon[Symbol.asyncDispose]();
    await rm(this.home, { recursive: true, force: true });
  }

  #keep(daemon: FakeDaemon): FakeDaemon {
    this.#daemons.push(daemon);
    return daemon;
  }
}

function stdinOf(text: string): AsyncIterable<string> {
  return {
    async *[Symbol.asyncIterator]() {
      await Promise.resolve();
      if (text !== "") yield text;
    },
  };
}

function fakeRuntime(runtime: Partial<CliRuntime> = {}): CliRuntime {
  const absent = (): Promise<never> => Promise.reject(new CoralError({ code: "internal", message: "not expected in this test" }));
  return {
    run: absent,
    start: absent,
    stop: absent,
    init: absent,
    doctor: absent,
    signalNames: () => Promise.resolve(["host", "host_cpu"]),
    ...runtime,
  };
}

/** A home with a colony, created for every test of a file. */
export function useColony(): { readonly world: World; readonly colony: FakeDaemon } {
  let world: World;
  let colony: FakeDaemon;
  beforeEach(async () => {
    world = await World.create();
    colony = await world.startColony();
  });
  afterEach(() => world[Symbol.asyncDispose]());
  return {
    get world() {
      return world;
    },
    get colony() {
      return colony;
    },
  };
}
