import { type ChildProcessByStdio, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fineLayout, percentileNs } from "../../src/base/latency-histogram.ts";
import { readBtfLayout } from "../../src/bpf/index.ts";
import { probesSkipReason, requestsObject } from "../support/bpf-skip-reason.ts";
import { hasProgram } from "../support/has-program.ts";
import { freePort } from "../support/held-port.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { runProgram } from "../support/run-program.ts";
import { waitFor } from "../support/wait-for.ts";

const script = fileURLToPath(new URL("../support/raw-http.mjs", import.meta.url));

type HttpProgram = ChildProcessByStdio<Writable, Readable, null>;

interface Step {
  sends: string[];
  answers: number;
  /** Keep the connection for the next step. */
  keep?: boolean;
  /** Shuts down the sending side after the last send, and reads after the server's FIN. */
  half?: boolean;
}

/** A client in a separate process: the test process is not observed. */
class Client implements Disposable {
  readonly #child: HttpProgram;
  readonly #lines: Interface;

  constructor(port: number, host = "127.0.0.1") {
    this.#child = spawn(process.execPath, [script, "client", host, String(port)], { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.#child.stdout });
  }

  async send(step: Step): Promise<void> {
    const done = once(this.#lines, "line");
    this.#child.stdin.write(`${JSON.stringify(step)}\n`);
    await done;
  }

  [Symbol.dispose](): void {
    this.#child.kill();
  }
}

/** More than any socket buffer holds. */
const uploadBytes = 24 << 20;
/** Sends everything with one system call. */
const upload = `import socket, sys
port, path, size = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
head = f"POST {path} HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: {size}\\r\\n\\r\\n".encode()
with socket.create_connection(("127.0.0.1", port)) as client:
    client.sendall(head + bytes(size - len(head)))
    assert client.recv(64)
`;

const head = (method: string, target: string, extra = "") => `${method} ${target} HTTP/1.1\r\nHost: shop.test\r\n${extra}\r\n`;

/** Number of a port's connections with one of these bits set. */
function connectionsWith(observer: RequestObserver, port: number, field: string, bits: number): number {
  const { fields } = readBtfLayout(requestsObject).struct("connection");
  const offsetOf = (name: string): number => fields.get(name)?.offsetBytes ?? Number.NaN;
  let found = 0;
  for (const table of ["connection_slots", "connections"]) {
    observer.hooks.object.map(table).readAll((_keys, _keyAt, values, at) => {
      if (values.readBigUInt64LE(at + offsetOf("sk")) === 0n) return;
      const isOurs = ["local_port", "remote_port"].some((name) => values.readUInt16LE(at + offsetOf(name)) === port);
      if (isOurs && (values.readUInt8(at + offsetOf(field)) & bits) !== 0) found++;
    });
  }
  return found;
}

describe("HTTP/1 at sockets", () => {
  let server: HttpProgram | undefined;
  let port = 0;

  beforeAll(async () => {
    if (probesSkipReason() !== undefined) return;
    server = spawn(process.execPath, [script, "server"], { stdio: ["pipe", "pipe", "inherit"] });
    const [text] = await once(server.stdout, "data");
    port = Number(String(text));
  });

  afterAll(() => {
    server?.kill();
  });

  beforeEach((context) => {
    const reason = probesSkipReason();
    context.skip(reason !== undefined, reason);
  });

  it("re-sends the name of a request after the ring was full", async () => {
    await using observer = await RequestObserver.open({ settings: { ringBytes: 4096 } });
    using client = new Client(port);
    for (const word of ["one", "two", "three", "four", "five", "six"]) {
      await client.send({ sends: [head("GET", `/${word}`, `X-Long: ${"x".repeat(900)}\r\n`)], answers: 1 });
    }
    const late = { sends: [head("GET", "/late")], answers: 1, keep: true };
    for (let count = 0; count < 3; count++) await client.send(late);
    observer.look();
    expect(observer.losses.get("ring-full")).toBeGreaterThan(0);
    let sent = 9;
    // The ring holds few records, and other programs on this host use it, too.
    await waitFor("the name", async () => {
      for (let count = 0; count < 3; count++) await client.send(late);
      sent += 3;
      observer.look();
      return (observer.counts(port, "server")["GET /late 200"] ?? 0) > 0;
    });
    await observer.waitForCount(port, sent);
    expect(observer.counts(port, "server")["GET /late 200"]).toBe(sent - 6);
  });

  it.each(["sockets", "syscalls"] as const)("counts requests of one connection by route and status, at both ends (%s)", async (kind) => {
    await using observer = await RequestObserver.open({ kind });
    using client = new Client(port);
    for (let id = 0; id < 12; id++) await client.send({ sends: [head("GET", `/users/${id}?q=${id}`)], answers: 1, keep: true });
    for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"]) {
      await client.send({ sends: [head(method, "/things", "Content-Length: 0\r\n")], answers: 1, keep: true });
    }
    await client.send({ sends: [head("GET", "/status/404")], answers: 1, keep: true });
    await client.send({ sends: [head("GET", "/status/503")], answers: 1 });
    await observer.waitForCount(port, 20);
    const expected = {
      "GET /users/{id} 200": 12,
      "POST /things 200": 1,
      "PUT /things 200": 1,
      "DELETE /things 200": 1,
      "PATCH /things 200": 1,
      "OPTIONS /things 200": 1,
      "PROPFIND /things 200": 1,
      "GET /status/{id} 404": 1,
      "GET /status/{id} 503": 1,
    };
    expect(observer.counts(port, "server")).toEqual(expected);
    expect(observer.counts(port, "client")).toEqual(expected);
    const isError = (role: "server" | "client", status: string) =>
      observer.of(port, role).find((group) => group.status === status)?.isError;
    expect([isError("server", "404"), isError("client", "404"), isError("server", "503")]).toEqual([false, true, true]);
    expect(observer.of(port, "server")[0]).toMatchObject({ pid: server?.pid, peerAddress: "127.0.0.1", isTls: false });
  });

  it("parses heads that are split at any byte", async () => {
    await using observer = await RequestObserver.open();
    using client = new Client(port);
    const whole = head("GET", "/split/here");
    for (const at of [1, 2, 3, 4, 7, 12, 20]) await client.send({ sends: [whole.slice(0, at), whole.slice(at)], answers: 1 });
    await client.send({ sends: [...head("GET", "/b")], answers: 1 });
    await observer.waitForCount(port, 8);
    for (const role of ["server", "client"] as const) {
      expect(observer.counts(port, role)).toEqual({ "GET /split/here 200": 7, "GET /b 200": 1 });
    }
    const requestBytes = observer.of(port, "client").reduce((sum, group) => sum + group.requestBytes, 0);
    expect(requestBytes).toBeGreaterThanOrEqual(7 * whole.length);
  });

  it("counts pipelined requests with their own routes", async () => {
    await using observer = await RequestObserver.open();
    using client = new Client(port);
    const names = ["a", "b", "c", "d", "e"];
    await client.send({ sends: [names.map((name) => head("GET", `/one/${name}`)).join("")], answers: 5 });
    await client.send({ sends: names.map((name) => head("GET", `/many/${name}`)), answers: 5, keep: true });
    await client.send({ sends: [head("GET", "/after")], answers: 1 });
    await observer.waitForCount(port, 11);
    const expected = Object.fromEntries([
      ...names.flatMap((name) => [
        [`GET /one/${name} 200`, 1],
        [`GET /many/${name} 200`, 1],
      ]),
      ["GET /after 200", 1],
    ]);
    expect(observer.counts(port, "server")).toEqual(expected);
    expect(observer.counts(port, "client")).toEqual(expected);
  });

  it("measures the time to the first and to the last byte", async () => {
    await using observer = await RequestObserver.open();
    using client = new Client(port);
    await client.send({ sends: [head("GET", "/chunks")], answers: 1 });
    await observer.waitForCount(port, 1);
    for (const role of ["server", "client"] as const) {
      const [group] = observer.of(port, role);
      expect(percentileNs(fineLayout, group?.duration ?? { lo: 0, counts: [] }, 0.5)).toBeGreaterThan(60e6);
      expect(group?.firstByte.counts.length).toBe(1);
      expect(group?.firstByte.lo).toBeLessThan((group?.duration.lo ?? 0) / 2 + 1);
      expect(group?.responseBytes).toBeGreaterThan(300);
    }
  });

  it("skips 100-continue and stops at an upgrade", async () => {
    await using observer = await RequestObserver.open();
    using client = new Client(port);
    await client.send({ sends: [head("POST", "/expect", "Expect: 100-continue\r\nContent-Length: 5\r\n"), "hello"], answers: 1 });
    await client.send({
      sends: [head("GET", "/socket", "Connection: Upgrade\r\nUpgrade: websocket\r\n"), "GET /not/a/request HTTP/1.1\r\n\r\n"],
      answers: 1,
    });
    await observer.waitForCount(port, 2);
    for (const role of ["server", "client"] as const)
      expect(observer.counts(port, role)).toEqual({ "POST /expect 200": 1, "GET /socket 101": 1 });
  });

  it("uses the final response when it arrives together with early hints", async () => {
    await using observer = await RequestObserver.open();
    using client = new Client(port);
    for (let count = 0; count < 3; count++) await client.send({ sends: [head("GET", "/hints")], answers: 1, keep: true });
    await client.send({ sends: [head("GET", "/after")], answers: 1 });
    await observer.waitForCount(port, 4);
    for (const role of ["server", "client"] as const)
      expect(observer.counts(port, role)).toEqual({ "GET /hints 200": 3, "GET /after 200": 1 });
  });

  it.each(["sockets", "syscalls"] as const)(
    "counts the response to a client that shut down its sending side before reading (%s)",
    async (kind) => {
      await using observer = await RequestObserver.open({ kind });
      using client = new Client(port);
      for (let count = 0; count < 3; count++)
        await client.send({ sends: [head("GET", "/half", "Connection: close\r\n")], answers: 1, half: true });
      await observer.waitForCount(port, 3);
      for (const role of ["server", "client"] as const) expect(observer.counts(port, role)).toEqual({ "GET /half 200": 3 });
      expect(connectionsWith(observer, port, "protocol", 255)).toBe(0);
    },
  );

  it("counts a request without a response when its connection ends", async () => {
    await using observer = await RequestObserver.open();
    using client = new Client(port);
    await client.send({ sends: [head("GET", "/never")], answers: 0 });
    await observer.waitForCount(port, 1);
    for (const role of ["server", "client"] as const) {
      expect(observer.counts(port, role)).toEqual({ "GET /never no-reply": 1 });
      expect(observer.of(port, role)[0]?.isError).toBe(true);
    }
  });

  it("observes connections that are older than the hooks, and IPv6", async () => {
    using old = new Client(port);
    await old.send({ sends: [head("GET", "/before")], answers: 1, keep: true });
    await using observer = await RequestObserver.open();
    await old.send({ sends: [head("GET", "/since")], answers: 1 });
    using six = new Client(port, "::1");
    await six.send({ sends: [head("GET", "/six")], answers: 1 });
    await observer.waitForCount(port, 2);
    for (const role of ["server", "client"] as const) {
      expect(observer.counts(port, role)).toEqual({ "GET /since 200": 1, "GET /six 200": 1 });
      expect(
        observer
          .of(port, role)
          .map(({ peerAddress }) => peerAddress)
          .sort(),
      ).toEqual(["127.0.0.1", "::1"]);
    }
  });

  it("does not treat a request after a pause as pipelined", async () => {
    await using observer = await RequestObserver.open();
    using client = new Client(port);
    await client.send({ sends: [head("GET", "/first")], answers: 1, keep: true });
    const slowly = [head("POST", "/body", "Content-Length: 200\r\n"), ..."x".repeat(200)];
    const asked = client.send({ sends: slowly, answers: 1, keep: true });
    // STATE_PENDING, and CONNECTION_STREAMED in the flags, of probes/requests/connection.h.
    await waitFor("an open request", () => connectionsWith(observer, port, "state", 1) === 2, { intervalMs: 5 });
    await observer.hooks.detach();
    await asked;
    observer.hooks.attach();
    for (let count = 0; count < 3; count++) await client.send({ sends: [head("GET", "/later")], answers: 1, keep: true });
    expect(connectionsWith(observer, port, "flags", 4)).toBe(0);
    observer.look(true);
    for (const role of ["server", "client"] as const) expect(observer.counts(port, role)["GET /later 200"]).toBe(3);
  });

  it.each(["sockets", "syscalls"] as const)("measures how long requests wait, from the first one of a connection (%s)", async (kind) => {
    await using observer = await RequestObserver.open({ kind });
    using client = new Client(port);
    for (let count = 0; count < 3; count++) await client.send({ sends: [head("GET", "/wait")], answers: 1, keep: true });
    await client.send({ sends: [], answers: 0 });
    await observer.waitForCount(port, 3);
    const served = observer.of(port, "server");
    expect(served.reduce((sum, group) => sum + group.queueCount, 0)).toBe(3);
    expect(observer.of(port, "client").reduce((sum, group) => sum + group.queueCount, 0)).toBe(0);
  });

  it("measures from the start of a blocked send, after the first one was seen", async (context) => {
    context.skip(!hasProgram("python3"), "python3 is not installed");
    const pauseMs = 300;
    // In this process, which is not observed. It reads after a pause.
    const lazy = createServer({ pauseOnConnect: true }, (socket) => {
      let left = uploadBytes;
      socket
        .on("error", () => {})
        .on("data", (bytes) => {
          left -= bytes.length;
          if (left <= 0) socket.end("HTTP/1.1 204 No Content\r\n\r\n");
        });
      setTimeout(() => socket.resume(), pauseMs);
    }).listen(0, "127.0.0.1");
    await once(lazy, "listening");
    const lazyPort = (lazy.address() as AddressInfo).port;
    await using observer = await RequestObserver.open();
    for (const path of ["/first", "/second"]) {
      const run = await runProgram("python3", ["-c", upload, String(lazyPort), path, String(uploadBytes)], {
        env: { PATH: process.env["PATH"] ?? "" },
      });
      expect(run).toMatchObject({ code: 0, stderr: "" });
      // Attaches the hook that the first blocked send requires.
      observer.look();
    }
    await observer.waitForCount(lazyPort, 2, ["client"]);
    const [second] = observer.of(lazyPort, "client").filter(({ route }) => route === "/second");
    expect(second).toMatchObject({ method: "POST", status: "204", count: 1, requestBytes: uploadBytes });
    expect(second?.durationSumNs).toBeGreaterThan(0.9 * pauseMs * 1e6);
    lazy.close();
  });

  it("reports connections with an unknown protocol, and ignores them", async () => {
    // In this process, which is not observed: only the client's end is counted.
    const sink = createServer((socket) => socket.resume().on("error", () => {})).listen(0, "127.0.0.1");
    await once(sink, "listening");
    const sinkPort = (sink.address() as AddressInfo).port;
    await using observer = await RequestObserver.open();
    using client = new Client(sinkPort);
    const garbage = Array.from({ length: 12 }, (_, index) => String.fromCharCode(0xf0 + (index % 8)).repeat(40));
    await client.send({ sends: garbage, answers: 0 });
    await waitFor("the loss", () => {
      observer.look(true);
      return (observer.losses.get("unknown-protocol") ?? 0) > 0;
    });
    expect(observer.counts(sinkPort, "client")).toEqual({});
    sink.close();
  });

  it("counts the bytes that nginx sends from files exactly", async (context) => {
    context.skip(spawnSync("nginx", ["-v"]).error !== undefined, "nginx is not installed");
    const directory = mkdtempSync(join(tmpdir(), "coral-nginx-"));
    const nginxPort = await freePort();
    writeFileSync(join(directory, "big"), Buffer.alloc(300_000, "x"));
    const config = `worker_processes 1; daemon off; master_process off; pid ${directory}/pid; error_log ${directory}/log;
events {} http { access_log off; sendfile on; client_body_temp_path ${directory}; proxy_temp_path ${directory}; fastcgi_temp_path ${directory};
uwsgi_temp_path ${directory}; scgi_temp_path ${directory}; server { listen 127.0.0.1:${nginxPort}; root ${directory}; } }`;
    writeFileSync(join(directory, "conf"), config);
    const nginx = spawn("nginx", ["-c", join(directory, "conf"), "-e", join(directory, "log")], { stdio: "ignore" });
    try {
      await waitFor("nginx", async () => (await fetch(`http://127.0.0.1:${nginxPort}/big`)).ok);
      await using observer = await RequestObserver.open();
      using client = new Client(nginxPort);
      await client.send({ sends: ["GET /big HTTP/1.0\r\n\r\n"], answers: 1, keep: true });
      await waitFor("the end", () => {
        observer.look();
        return observer.of(nginxPort, "server").length > 0;
      });
      const [group] = observer.of(nginxPort, "server");
      expect(group).toMatchObject({ method: "GET", route: "/big", status: "200", count: 1, requestBytes: 21 });
      expect(group?.responseBytes).toBeGreaterThan(300_000);
      expect(group?.responseBytes).toBeLessThan(300_500);
    } finally {
      nginx.kill("SIGKILL");
      rmSync(directory, { recursive: true, force: true });
    }
  });
});
