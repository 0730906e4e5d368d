/** Requests by unusual system calls: they are counted correctly, or reported as lost or unknown. */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it, type TestContext } from "vitest";
import type { LossKind } from "../../src/traffic/core/messages.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { hasProgram, programsSkipReason } from "../support/has-program.ts";
import { freePort } from "../support/held-port.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { runProgram } from "../support/run-program.ts";
import { waitFor } from "../support/wait-for.ts";

const support = (name: string) => fileURLToPath(new URL(`../support/${name}`, import.meta.url));
const env = { PATH: process.env["PATH"] ?? "" };
/** Exit code of the test program if the kernel lacks the system call. */
const notHere = 77;

describe("requests by unusual system calls", () => {
  let directory: string | undefined;
  let observer: RequestObserver;

  beforeAll(async () => {
    if (probesSkipReason("cc") !== undefined) return;
    observer = await RequestObserver.open();
    directory = mkdtempSync(join(tmpdir(), "coral-odd-calls-"));
    execFileSync("cc", ["-O1", "-o", join(directory, "odd-calls"), support("odd-calls.c")]);
  });

  afterAll(async () => {
    if (directory === undefined) return;
    await observer[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true });
  });

  beforeEach((context) => {
    const reason = probesSkipReason("cc");
    context.skip(reason !== undefined, reason);
  });

  /** Starts the server and returns its port. */
  const exchange = async (context: TestContext, way: string, count: number): Promise<number> => {
    const run = await runProgram(join(directory ?? "", "odd-calls"), [way, String(count)], { env });
    context.skip(run.code === notHere, "the kernel has no such call");
    expect(run).toMatchObject({ code: 0, stderr: "" });
    return Number(run.stdout);
  };

  const seen = { "GET /asked 200": 10, "GET /asked 500": 10 };

  it.for<[text: string, way: string]>([
    ["sent and read in forty pieces", "pieces"],
    ["sent by several messages with stale sizes", "messages"],
    ["discarded after their heads", "discard"],
  ])("have the right status when responses are %s", async ([, way], context) => {
    const port = await exchange(context, way, 20);
    await observer.waitForCount(port, 20);
    expect(observer.counts(port, "server")).toEqual(seen);
    expect(observer.counts(port, "client")).toEqual(seen);
  });

  it("are counted with an unknown status when responses come from files", async (context) => {
    const before = observer.losses.get("unreadable") ?? 0;
    const port = await exchange(context, "file", 20);
    await observer.waitForCount(port, 20);
    expect(observer.counts(port, "server")).toEqual({ "GET /asked": 20 });
    expect(observer.counts(port, "client")).toEqual(seen);
    expect(observer.losses.get("unreadable")).toBeGreaterThanOrEqual(before + 20);
  });

  it("are counted with all bytes when responses come from files, with hooks at system calls", async (context) => {
    await using watching = await RequestObserver.open({ kind: "syscalls" });
    const port = await exchange(context, "file", 20);
    await watching.waitForCount(port, 20);
    expect(watching.counts(port, "server")).toEqual({ "GET /asked": 20 });
    const sums = (["server", "client"] as const).map((role) =>
      watching.of(port, role).reduce((sum, group) => sum + group.responseBytes, 0),
    );
    expect(sums[0]).toBeGreaterThan(20 * 300);
    expect(sums[0]).toBe(sums[1]);
  });

  it("do not get the status of an earlier response when the kernel sends while another call returns", async (context) => {
    const port = await exchange(context, "ring", 20);
    await observer.waitForCount(port, 20);
    expect(observer.counts(port, "server")).toEqual({ "GET /asked 200": 10, "GET /asked": 10 });
    expect(observer.counts(port, "client")).toEqual(seen);
    const [server] = observer.of(port, "server");
    expect(observer.unseen).toContainEqual(expect.objectContaining({ pid: server?.pid, reason: "io-uring" }));
  });

  it("are reported for the processes that exchange them over unix sockets", async (context) => {
    context.skip(!hasProgram("python3"), "needs python3");
    const script = `import http.client, http.server, os, socket, socketserver, sys, tempfile, threading
path = os.path.join(tempfile.mkdtemp(), "socket")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
    def address_string(self): return "unix"
    def log_message(self, *words): pass
server = socketserver.ThreadingUnixStreamServer(path, Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for turn in range(400):
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request("GET", "/over/unix")
    connection.getresponse().read()
    connection.close()
print("done", flush=True)
sys.stdin.read()`;
    const program = spawn("python3", ["-c", script], { stdio: ["pipe", "pipe", "inherit"] });
    try {
      await once(program.stdout, "data");
      observer.look();
      expect(observer.unseen).toContainEqual(expect.objectContaining({ pid: program.pid, reason: "unix-socket" }));
    } finally {
      program.kill();
    }
  });

  it.for<[way: string, loss: LossKind]>([
    ["unseen", "unreadable"],
    ["unseen", "unknown-protocol"],
    ["mptcp", "unknown-protocol"],
  ])("are reported as lost when all of them are %s: %s", async ([way, loss], context) => {
    const before = observer.losses.get(loss) ?? 0;
    let port = 0;
    for (let turn = 0; turn < 8; turn++) port = await exchange(context, way, 6);
    await waitFor(
      `16 times ${loss}`,
      () => {
        observer.look(true);
        return (observer.losses.get(loss) ?? 0) >= before + 16;
      },
      { details: () => JSON.stringify([...observer.losses]) },
    );
    expect(observer.of(port, "server")).toEqual([]);
  });

  it("are counted at a server that responds before the connection is established", async (context) => {
    const reason = programsSkipReason("unshare", "ip", "iptables", "python3");
    context.skip(reason !== undefined, reason);
    const port = await freePort();
    const run = await runProgram("unshare", ["--net", "python3", support("fast-open.py"), String(port), "8"], { env });
    context.skip(run.code === notHere, "no network of its own can be set up");
    expect(run).toMatchObject({ code: 0, stderr: "" });
    await observer.waitForCount(port, 8);
    expect(observer.counts(port, "server")).toEqual({ "GET /fast 204": 8 });
    expect(observer.counts(port, "client")).toEqual({ "GET /fast 204": 8 });
  });
});
