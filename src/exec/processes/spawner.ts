/**
 * Starts programs from a small helper process. fork() copies the page tables of its process. For an agent with its store that blocks the event loop for
 * tens of milliseconds; for the helper it takes two. The helper passes the programs' pipes to the agent, so no data goes through it.
 */

import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex, Readable, Writable } from "node:stream";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { ownCodeMark } from "../../host/index.ts";

/** As in Node: `code` is null for a program that a signal ended. */
export interface ProgramExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A started program. Its stderr must be read, or the program blocks. */
export interface SpawnedProgram {
  pid: number;
  stderr: Readable;
  exited: Promise<ProgramExit>;
}

/** Programs joined by pipes. */
export interface SpawnedPrograms {
  programs: SpawnedProgram[];
  /** stdin of the first program. */
  stdin: Writable;
  /** stdout of the last program. */
  stdout: Readable;
  /** Descriptor 3 of the first program; undefined if not requested. */
  orders: Writable | undefined;
}

export interface StartOptions {
  /** One argv per program; each leads its own session. */
  programs: readonly (readonly [string, ...string[]])[];
  environment: Readonly<Record<string, string>>;
  /** The first program gets a second input, at descriptor 3. Default false. */
  takesOrders?: boolean;
}

/** Starts the helper with the first command. Disposing it ends the helper, not the programs. */
export interface Spawner extends Disposable {
  /** Throws if a program cannot be started, and then none of them runs. Throws after disposal. */
  start(options: StartOptions): Promise<SpawnedPrograms>;
}

/** The helper exits after this idle time. */
const idleMs = 60_000;

/**
 * The helper's code. It detaches streams from the child objects before any data arrives and never reads them: data read here would be lost. It exits when
 * its channel closes, which covers any end of the agent.
 */
const source = `${ownCodeMark}
const { spawn } = require("node:child_process");
process.on("disconnect", () => process.exit());
process.on("message", ({ id, programs, environment, takesOrders }) => {
  const started = [];
  const problems = [];
  for (const [file, ...args] of programs) {
    const before = started.at(-1);
    const index = started.length;
    const stdio = [before ? before.ends[1] : "pipe", "pipe", "pipe"];
    if (takesOrders && !before) stdio.push("pipe");
    const child = spawn(file, args, { stdio, env: environment, cwd: "/", detached: true });
    child.on("exit", (code, signal) => process.send({ id, index, code, signal }));
    child.on("error", (error) => process.send({ id, failure: error.message }));
    const ends = child.stdio;
    for (const end of ends) if (end && end._handle) { end._handle.reading = false; end._handle.readStop(); }
    child.stdin = child.stdout = child.stderr = null;
    child.stdio = [];
    started.push({ child, ends });
    if (child.pid === undefined) break;
  }
  if (started.some(({ child }) => child.pid === undefined)) {
    for (const { child } of started) if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    return;
  }
  process.send({ id, pids: started.map(({ child }) => child.pid) });
  if (takesOrders) process.send({ id, stream: "orders", index: 0 }, started[0].ends[3]);
  process.send({ id, stream: "stdin", index: 0 }, started[0].ends[0]);
  for (const [index, { ends }] of started.entries()) process.send({ id, stream: "stderr", index }, ends[2]);
  process.send({ id, stream: "stdout", index: started.length - 1 }, started.at(-1).ends[1]);
  for (const { ends } of started.slice(0, -1)) ends[1].destroy();
});
`;

type StreamName = "stdin" | "stdout" | "stderr" | "orders";

type Message =
  | { id: number; pids: number[] }
  | { id: number; stream: StreamName; index: number }
  | { id: number; index: number; code: number | null; signal: NodeJS.Signals | null }
  | { id: number; failure: string };

/** The helper is not started before it is needed. */
export function createSpawner(log: Logger): Spawner {
  return new HelpedSpawner(log);
}

/** If the helper exits, the exit status of its programs is lost: they count as killed, and their owner kills them. */
class HelpedSpawner implements Spawner {
  readonly #log: Logger;
  readonly #orders = new Map<number, StartOrder>();
  #helper: ChildProcess | undefined;
  #idle: NodeJS.Timeout | undefined;
  #lastId = 0;
  #isDisposed = false;

  constructor(log: Logger) {
    this.#log = log;
  }

  async start({ programs, environment, takesOrders = false }: StartOptions): Promise<SpawnedPrograms> {
    // A late caller, such as a timer, must not start a new helper, because nothing would stop it.
    if (this.#isDisposed) throw new CoralError({ code: "unavailable", message: "Cannot start a command: the agent is shutting down" });
    clearTimeout(this.#idle);
    this.#helper ??= this.#startHelper();
    const id = ++this.#lastId;
    const order = new StartOrder(programs.length, () => this.#forget(id));
    this.#orders.set(id, order);
    // Running programs keep the agent alive; an idle helper does not.
    this.#helper.channel?.ref();
    this.#helper.send({ id, programs, environment, takesOrders }, (error) => {
      if (error) order.lose(error.message);
    });
    return await order.started;
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    this.#endHelper();
  }

  /** The next start() starts another one. */
  #endHelper(): void {
    clearTimeout(this.#idle);
    const helper = this.#helper;
    this.#helper = undefined;
    if (helper?.connected) helper.disconnect();
  }

  #forget(id: number): void {
    this.#orders.delete(id);
    if (this.#orders.size > 0) return;
    this.#helper?.channel?.unref();
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#endHelper(), idleMs);
    this.#idle.unref();
  }

  #startHelper(): ChildProcess {
    const helper = spawn(process.execPath, ["--max-semi-space-size=1", "--v8-pool-size=0", "-e", source], {
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      cwd: "/",
      // Without the agent's environment, which may contain a token.
      env: {},
      detached: true,
    });
    helper.on("message", (message: Message, handle?: Duplex) => this.#orders.get(message.id)?.take(message, handle));
    const onGone = (why: string): void => {
      if (this.#helper === helper) this.#helper = undefined;
      for (const order of Array.from(this.#orders.values())) order.lose(why);
    };
    helper.once("error", (error) => {
      this.#log.warn(`spawn helper failed: ${error.message}; starting another one with the next command`);
      onGone(error.message);
    });
    helper.once("exit", () => onGone("the spawn helper exited"));
    helper.unref();
    helper.channel?.unref();
    return helper;
  }
}

/** One pipeline, from the request to the exit of its last program. */
class StartOrder {
  readonly started: Promise<SpawnedPrograms>;
  readonly #count: number;
  readonly #onDone: () => void;
  readonly #exits: { promise: Promise<ProgramExit>; resolve: (exit: ProgramExit) => void; hasExited: boolean }[];
  readonly #stderrs = new Map<number, Duplex>();
  #pids: number[] = [];
  #stdin: Duplex | undefined;
  #stdout: Duplex | undefined;
  #orders: Duplex | undefined;
  #resolve: (spawned: SpawnedPrograms) => void = () => undefined;
  #reject: (error: CoralError) => void = () => undefined;

  constructor(count: number, onDone: () => void) {
    this.#count = count;
    this.#onDone = onDone;
    this.#exits = Array.from({ length: count }, () => {
      let resolve: (exit: ProgramExit) => void = () => undefined;
      const promise = new Promise<ProgramExit>((done) => {
        resolve = done;
      });
      return { promise, resolve, hasExited: false };
    });
    this.started = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  take(message: Message, handle: Duplex | undefined): void {
    if ("failure" in message) {
      this.#fail(message.failure);
      return;
    }
    if ("pids" in message) this.#pids = message.pids;
    else if ("stream" in message) this.#keep(message.stream, message.index, handle);
    else this.#exit(message.index, { code: message.code, signal: message.signal });
  }

  /** Exit codes of the programs are lost; their owner kills them. */
  lose(why: string): void {
    this.#fail(why);
    for (const index of this.#exits.keys()) this.#exit(index, { code: null, signal: "SIGKILL" });
  }

  #keep(stream: StreamName, index: number, handle: Duplex | undefined): void {
    if (!handle) return;
    // A program that exits before it has read all its input is not an error.
    handle.on("error", () => undefined);
    if (stream === "stderr") this.#stderrs.set(index, handle);
    else if (stream === "orders") this.#orders = handle;
    else if (stream === "stdin") this.#stdin = handle;
    else this.#stdout = handle;
    if (!this.#stdin || !this.#stdout || this.#stderrs.size < this.#count) return;
    const programs = this.#exits.flatMap(({ promise }, place) => {
      const stderr = this.#stderrs.get(place);
      return stderr ? [{ pid: this.#pids[place] ?? 0, stderr, exited: promise }] : [];
    });
    // Requests, if any, came first.
    this.#resolve({ programs, stdin: this.#stdin, stdout: this.#stdout, orders: this.#orders });
  }

  #exit(index: number, exit: ProgramExit): void {
    const own = this.#exits[index];
    if (!own || own.hasExited) return;
    own.hasExited = true;
    own.resolve(exit);
    if (this.#exits.every(({ hasExited }) => hasExited)) this.#onDone();
  }

  #fail(why: string): void {
    this.#reject(new CoralError({ code: "unavailable", message: `Cannot start a command: ${why}` }));
    this.#onDone();
  }
}
