/** A full ring loses records of connections that decoders read. Requests affected by that are reported as unknown, never as errors. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { type RunningServer, startMemcached, startPostgres, startRedis } from "../support/database-servers.ts";
import { RequestObserver } from "../support/request-observer.ts";

/** Sends twenty requests per call, as many times as each input line says, and waits for the responses. */
const client = `
import socket, struct, sys
kind, port = sys.argv[1], int(sys.argv[2])
asked = socket.create_connection(("127.0.0.1", port))
answers = asked.makefile("rb")
def postgres(letter, text):
    return letter + struct.pack(">I", len(text) + 4) + text
def until(letter):
    while True:
        head = answers.read(5)
        answers.read(struct.unpack(">I", head[1:])[0] - 4)
        if head[:1] == letter:
            return
if kind == "postgres":
    asked.sendall(struct.pack(">II", 23, 196608) + b"user\\0postgres\\0\\0")
    until(b"Z")
for line in sys.stdin:
    for turn in range(int(line)):
        if kind == "redis":
            asked.sendall(b"*1\\r\\n$4\\r\\nPING\\r\\n" * 20)
            for answer in range(20):
                answers.readline()
        elif kind == "memcached":
            asked.sendall(b"get nothing\\r\\n" * 20)
            for answer in range(20):
                answers.readline()
        else:
            asked.sendall(b"".join(postgres(b"Q", b"select 1\\0") for query in range(20)))
            for answer in range(20):
                until(b"Z")
    print("done", flush=True)
`;

const servers = { redis: startRedis, memcached: startMemcached, postgres: startPostgres } as const;
let server: RunningServer | undefined;
let child: ChildProcess | undefined;

describe("a full ring", () => {
  beforeEach((context) => {
    const reason = probesSkipReason("redis-server", "memcached", "postgres", "python3");
    context.skip(reason !== undefined, reason);
  });
  afterEach(async () => {
    child?.kill("SIGKILL");
    await server?.[Symbol.asyncDispose]();
  });

  it.each(["redis", "memcached", "postgres"] as const)(
    "neither reports lost records of %s as errors nor misreads the records after them",
    async (kind) => {
      server = await servers[kind]();
      const { port } = server;
      await using observer = await RequestObserver.open({ settings: { ringBytes: 1 << 16 } });
      const running = spawn("python3", ["-c", client, kind, String(port)], { stdio: ["pipe", "pipe", "inherit"] });
      child = running;
      const lines = createInterface(running.stdout);
      const ask = async (times: number) => {
        running.stdin.write(`${times}\n`);
        await once(lines, "line", { signal: AbortSignal.timeout(20_000) });
      };
      const counted = (role: "server" | "client") => observer.of(port, role).reduce((sum, { count }) => sum + count, 0);
      await ask(2);
      observer.look();
      await ask(400);
      observer.look();
      expect(observer.losses.get("ring-full")).toBeGreaterThan(0);
      const before = { server: counted("server"), client: counted("client") };
      await ask(4);
      observer.look();
      running.stdin.end();
      await once(running, "close");
      observer.look(true);
      for (const role of ["server", "client"] as const) {
        expect(observer.of(port, role).filter(({ isError }) => isError)).toEqual([]);
        expect(counted(role) - before[role]).toBe(80);
      }
    },
  );
});
