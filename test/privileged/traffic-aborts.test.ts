/** Connections that end in the middle of a response, and responses that no process reads: aborted downloads, splice(2). */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { waitFor } from "../support/wait-for.ts";

/** Sends head and body in one blocking call, which returns when the client disconnects. */
const blockingServer = `
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
body = b"x" * 50_000_000
while True:
    peer, _ = listener.accept()
    peer.recv(65536)
    try:
        peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    except OSError:
        pass
    peer.close()
`;

/** Reads the head and some of the body, then resets the connection. */
const abortingClient = `
import socket, struct, sys
for _ in range(int(sys.argv[2])):
    peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    peer.sendall(b"GET /download HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    peer.recv(4096)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
`;

/** A server that reads requests and never responds, and its client, which resets the connection then. */
const silentPair = `
import socket, struct, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
peers, has_read = [], threading.Semaphore(0)
def serve():
    while True:
        peer, _ = listener.accept()
        peer.recv(65536)
        peers.append(peer)
        has_read.release()
threading.Thread(target=serve, daemon=True).start()
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
for _ in range(3):
    peer = socket.create_connection(listener.getsockname())
    peer.sendall(b"GET /download HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    has_read.acquire()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
print("done", flush=True)
sys.stdin.readline()
`;

const haproxyConfig = (mode: "http" | "tcp", port: number, target: number): string => `
global
  maxconn 100
defaults
  mode ${mode}
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  option splice-response
listen front
  bind 127.0.0.1:${port}
  server back 127.0.0.1:${target}
`;

async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  return typeof address === "object" && address !== null ? address.port : 0;
}

describe("requests whose connection or response is aborted", () => {
  const children: ChildProcess[] = [];

  function python(code: string, ...args: string[]): ChildProcess {
    const child = spawn("python3", ["-c", code, ...args], { stdio: ["pipe", "pipe", "inherit"] });
    children.push(child);
    return child;
  }

  async function portOf(child: ChildProcess): Promise<number> {
    if (child.stdout === null) throw new Error("no output");
    return Number(String((await once(child.stdout, "data"))[0]));
  }

  afterEach(() => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
  });

  beforeEach((context) => {
    const reason = probesSkipReason("python3");
    context.skip(reason !== undefined, reason);
  });

  it("counts the status of a blocking server whose client aborts the download", async () => {
    const port = await portOf(python(blockingServer));
    await using observer = await RequestObserver.open();
    const client = python(abortingClient, String(port), "5");
    await once(client, "exit");
    await observer.waitForCount(port, 5);
    for (const role of ["server", "client"] as const) expect(observer.counts(port, role)).toEqual({ "GET /download 200": 5 });
    const bytes = observer.of(port, "server").reduce((sum, { responseBytes }) => sum + responseBytes, 0);
    expect(bytes).toBeGreaterThan(5 * 4096);
  });

  it("counts a request without a response as such, also while the server keeps the closed socket", async () => {
    const pair = python(silentPair);
    const port = await portOf(pair);
    await using observer = await RequestObserver.open();
    const startedNs = process.hrtime.bigint();
    pair.stdin?.write("\n");
    if (pair.stdout !== null) await once(pair.stdout, "data");
    const tookNs = Number(process.hrtime.bigint() - startedNs);
    await observer.waitForCount(port, 3);
    expect(observer.counts(port, "server")).toEqual({ "GET /download no-reply": 3 });
    // The duration ends with the reset, not when it was counted.
    for (const { durationSumNs } of observer.of(port, "server")) expect(durationSumNs).toBeLessThan(3 * tookNs);
  });

  it.for(["http", "tcp"] as const)("invents no failure for responses that haproxy splices (%s)", async (mode, context) => {
    const reason = probesSkipReason("haproxy");
    context.skip(reason !== undefined, reason);
    const size = 300_000;
    const server = createServer((_request, response) => response.end(Buffer.alloc(size, "x"))).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const target = typeof address === "object" && address !== null ? address.port : 0;
    const port = await freePort();
    const directory = mkdtempSync(join(tmpdir(), "coral-haproxy-"));
    const config = join(directory, "haproxy.cfg");
    writeFileSync(config, haproxyConfig(mode, port, target));
    const haproxy = spawn("haproxy", ["-db", "-f", config], { stdio: "ignore" });
    children.push(haproxy);
    const ask = () =>
      new Promise<number>((resolve, reject) => {
        const asked = request({ host: "127.0.0.1", port, path: "/file", agent: false }, (response) => {
          let bytes = 0;
          response.on("data", (data: Buffer) => (bytes += data.length)).on("end", () => resolve(bytes));
        });
        asked.on("error", reject).end();
      });
    try {
      await waitFor("haproxy", () =>
        ask().then(
          (bytes) => bytes === size,
          () => false,
        ),
      );
      await using observer = await RequestObserver.open();
      const sent = () => observer.of(target, "client").filter(({ pid }) => pid === haproxy.pid);
      const statuses = () => [...new Set(sent().map(({ status }) => status))];
      for (let count = 0; count < 4; count++) expect(await ask()).toBe(size);
      // Attaches the hook that sees spliced bytes.
      observer.look(true);
      const before = sent().length;
      const bytesBefore = sent().reduce((sum, { responseBytes }) => sum + responseBytes, 0);
      for (let count = 0; count < 4; count++) expect(await ask()).toBe(size);
      await waitFor("the requests of haproxy", () => {
        observer.look(true);
        return (
          sent()
            .slice(before)
            .reduce((sum, { count }) => sum + count, 0) >= 4
        );
      });
      expect(statuses()).not.toContain("no-reply");
      expect(sent().every(({ isError }) => !isError)).toBe(true);
      const bytes = sent().reduce((sum, { responseBytes }) => sum + responseBytes, 0) - bytesBefore;
      expect(bytes).toBeGreaterThan(4 * size);
      expect(bytes).toBeLessThan(4 * (size + 1_000));
    } finally {
      server.close();
      rmSync(directory, { recursive: true });
    }
  });
});
