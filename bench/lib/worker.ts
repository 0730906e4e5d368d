/** Child processes of a benchmark: the same bundle, started with a role name. Parent and child exchange plain messages. */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";

/** Role of this process; undefined in the main process. */
export const role: string | undefined = process.argv[2];
export const roleArguments: readonly string[] = process.argv.slice(3);

type Message = { value: unknown } | { error: string };

/** A child that sends one reply per request, in order. */
export class Worker implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #what: string;

  constructor(what: string, args: readonly string[] = [], execArgv: readonly string[] = process.execArgv) {
    this.#what = what;
    this.#child = fork(process.argv[1] ?? "", [what, ...args], { execArgv: [...execArgv] });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async ask<T>(request: unknown): Promise<T> {
    const ended = new AbortController();
    const onExit = (code: number | null): void => ended.abort(new Error(`Process "${this.#what}" exited with ${code}`));
    this.#child.once("exit", onExit);
    try {
      this.#child.send({ value: request });
      const [message] = (await once(this.#child, "message", { signal: ended.signal })) as [Message];
      if ("error" in message) throw new Error(`Process "${this.#what}" failed: ${message.error}`);
      return message.value as T;
    } catch (error) {
      throw ended.signal.aborted ? ended.signal.reason : error;
    } finally {
      this.#child.off("exit", onExit);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, "exit");
    this.#child.disconnect();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 10_000);
    await exit;
    clearTimeout(timer);
  }
}

/** The child's side: replies until the parent disconnects, then resolves. */
export async function serveParent<Request>(answer: (request: Request) => Promise<unknown>): Promise<void> {
  process.on("message", ({ value }: { value: Request }) => {
    answer(value).then(
      (reply) => process.send?.({ value: reply }),
      (error: unknown) => process.send?.({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
    );
  });
  await once(process, "disconnect");
}
