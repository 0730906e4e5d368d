/** An agent in its own pid namespace records requests of the processes in it, under their pids there, and of no other processes. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { RequestObserver } from "../support/request-observer.ts";

const script = fileURLToPath(new URL("../support/http-program.mjs", import.meta.url));
const unshare = ["unshare", "--pid", "--fork", "--kill-child"];

function skipReason(): string | undefined {
  const isAllowed = spawnSync("unshare", ["--pid", "--fork", "true"]).status === 0;
  return probesSkipReason() ?? (isAllowed ? undefined : "unshare --pid is not permitted");
}

const reason = skipReason();
const children: ChildProcess[] = [];

/** Starts an HTTP server behind a command that may change namespaces. */
async function startServer(wrapper: readonly string[]): Promise<{ port: number; child: ChildProcess }> {
  const [file, ...args] = [...wrapper, process.execPath, script, "server"];
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return { port: Number(line), child };
}

async function request(port: number, times: number): Promise<void> {
  const client = spawn(process.execPath, [script, "client", String(port)], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(client);
  const lines = createInterface({ input: client.stdout })[Symbol.asyncIterator]();
  await lines.next();
  for (let index = 0; index < times; index++) {
    client.stdin.write(`${JSON.stringify({ path: "/scoped" })}\n`);
    await lines.next();
  }
}

function seenBy({ requests }: RequestObserver): string[] {
  return [...new Set(requests.map(({ pid, role, serverPort }) => `process ${pid}, ${role}, port ${serverPort}`))];
}

describe("the scope of an agent in a pid namespace", () => {
  beforeEach((context) => {
    context.skip(reason !== undefined, reason);
  });

  afterEach(() => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
  });

  it.each(["sockets", "syscalls"] as const)(
    "includes requests inside the namespace and none from outside, with hooks at %s",
    async (kind) => {
      const inside = await startServer(unshare);
      const nested = await startServer([...unshare, ...unshare]);
      const outside = await startServer([]);
      const look = async (of: ChildProcess): Promise<RequestObserver> => {
        const inode = statSync(`/proc/${of.pid}/ns/pid_for_children`).ino;
        const observer = await RequestObserver.open({ kind, namespace: { inode, isFirst: false } });
        for (const { port } of [outside, nested, inside]) await request(port, 5);
        return observer;
      };

      await using first = await look(inside.child);
      await first.waitForCount(inside.port, 5, ["server"]);
      // The client ran outside.
      expect(seenBy(first)).toEqual([`process 1, server, port ${inside.port}`]);
      await first[Symbol.asyncDispose]();

      // A namespace below the agent's is in its scope: the inner unshare has pid 1, the server pid 2 there and pid 1 in its own.
      await using second = await look(nested.child);
      await second.waitForCount(nested.port, 5, ["server"]);
      expect(seenBy(second)).toEqual([`process 2, server, port ${nested.port}`]);
    },
  );
});
