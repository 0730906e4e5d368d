/** HTTP/2 and gRPC: counts of the BPF programs and the decoder, compared with what clients sent. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { hasProgram } from "../support/has-program.ts";
import { freePort } from "../support/held-port.ts";
import { Http2Observer } from "../support/http2-observer.ts";
import { seededBytes, seededRandom } from "../support/seeded-random.ts";
import { waitFor } from "../support/wait-for.ts";

const script = fileURLToPath(new URL("../support/http2-program.mjs", import.meta.url));

class Http2Program {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];

  constructor(...args: string[]) {
    this.#child = spawn(process.execPath, [script, ...args], { stdio: ["pipe", "pipe", "inherit"] });
    this.pid = this.#child.pid ?? 0;
    createInterface({ input: this.#child.stdout! }).on("line", (line) => this.#lines.push(line));
    programs.push(this);
  }

  async line(): Promise<string> {
    await waitFor("a line of the program", () => this.#lines.length > 0, { intervalMs: 5 });
    return this.#lines.shift()!;
  }

  async request(path: string, count: number, parallel: number, bodyBytes = 0): Promise<void> {
    this.#child.stdin!.write(`${path} ${count} ${parallel} ${bodyBytes}\n`);
    expect(await this.line()).toBe("done");
  }

  end(): void {
    this.#child.kill("SIGKILL");
  }
}

const run = promisify(execFile);
const programs: Http2Program[] = [];
const endings: (() => void)[] = [];
let observer: Http2Observer | undefined;

/** The port that a client of `start()` connects to. */
const ports = new WeakMap<Http2Program, number>();

async function start(
  kind: "" | "grpc-",
  before: (client: Http2Program) => Promise<void> = async () => {},
): Promise<{ server: Http2Program; client: Http2Program }> {
  const server = new Http2Program(`${kind}server`);
  const port = await server.line();
  const client = new Http2Program(`${kind}client`, port);
  ports.set(client, Number(port));
  expect(await client.line()).toBe("ready");
  await before(client);
  return { server, client };
}

/** nginx as a single process, so that its pid is known: serves cleartext HTTP/2 and proxies gRPC. */
async function startNginx(grpcPort: string): Promise<{ pid: number; port: number }> {
  const directory = mkdtempSync(join(tmpdir(), "coral-nginx-"));
  const port = await freePort();
  writeFileSync(join(directory, "index.html"), "x".repeat(100_000));
  writeFileSync(
    join(directory, "nginx.conf"),
    `daemon off; master_process off; pid ${directory}/pid; error_log ${directory}/error.log; events {}
     http { access_log off; sendfile on; client_body_temp_path ${directory}/a; proxy_temp_path ${directory}/b; fastcgi_temp_path ${directory}/c;
       uwsgi_temp_path ${directory}/d; scgi_temp_path ${directory}/e;
       server { listen 127.0.0.1:${port} http2; root ${directory}; keepalive_requests 100000;
         location /api/ { return 200 "hello"; } location /shop { grpc_pass grpc://127.0.0.1:${grpcPort}; } } }`,
  );
  const child = spawn("nginx", ["-p", directory, "-c", join(directory, "nginx.conf")], { stdio: "inherit" });
  endings.push(() => {
    child.kill("SIGKILL");
    rmSync(directory, { recursive: true });
  });
  await waitFor(
    "nginx",
    () =>
      new Promise((resolve) =>
        connect(port, "127.0.0.1")
          .once("connect", function (this: { destroy(): void }) {
            this.destroy();
            resolve(true);
          })
          .once("error", () => resolve(false)),
      ),
  );
  return { pid: child.pid ?? 0, port };
}

describe("HTTP/2 on sockets", () => {
  beforeEach((context) => {
    const reason = probesSkipReason();
    context.skip(reason !== undefined, reason);
  });
  afterEach(async () => {
    for (const process of programs.splice(0)) process.end();
    for (const end of endings.splice(0)) end();
    await observer?.[Symbol.asyncDispose]();
    observer = undefined;
  });

  it("counts every stream at both ends, many in parallel", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("");
    await client.request("/users/#", 3000, 100);
    await client.request("/status/503", 20, 5);
    await client.request("/orders", 200, 40, 50_000);
    await client.request("/big", 50, 10);
    await client.request("/reset", 10, 2);
    const routes = (errors: string): Record<string, number> => ({
      "http2 GET /users/{id} 200": 3000,
      "http2 GET /status/{id} 503 error": 20,
      "http2 POST /orders 200": 200,
      "http2 GET /big 200": 50,
      [`http2 GET /reset no-reply${errors}`]: 10,
    });
    await observer.settle(() => observer!.total(client.pid) >= 3280 && observer!.total(server.pid) >= 3280);
    expect(observer.counts(client.pid, "client")).toEqual(routes(" error"));
    expect(observer.counts(server.pid, "server")).toEqual(routes(" error"));
    expect(observer.losses(client.pid, server.pid)).toEqual([]);
    const orders = observer.requests.filter(({ pid, route }) => pid === server.pid && route === "/orders");
    for (const { requestBytes } of orders) expect(requestBytes).toBeGreaterThan(50_000);
    for (const { requestBytes } of orders) expect(requestBytes).toBeLessThan(50_400);
    expect(JSON.stringify(observer.requests)).not.toContain("hidden-text");
  });

  it("counts the bytes of a response that was aborted", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("");
    await client.request("/broken", 1, 1);
    await client.request("/endless", 1, 1);
    await observer.settle(() => observer!.total(client.pid) >= 2 && observer!.total(server.pid) >= 2);
    for (const { pid, role } of [
      { pid: client.pid, role: "client" },
      { pid: server.pid, role: "server" },
    ] as const) {
      expect(observer.counts(pid, role)).toEqual({ "http2 GET /broken 200 error": 1, "http2 GET /endless 200": 1 });
      const [broken, endless] = observer.requests.filter((request) => request.pid === pid).map(({ responseBytes }) => responseBytes);
      expect(broken).toBeGreaterThan(1_000_000);
      // A lower bound: the last bytes may be missing.
      expect(endless).toBeGreaterThan(1_000_000 - (1 << 18) - (1 << 15));
    }
  });

  it("counts requests on connections that are older than the agent", async () => {
    const { server, client } = await start("", (early) => early.request("/users/#", 50, 10));
    observer = await Http2Observer.open();
    await client.request("/users/#", 500, 20);
    await client.request("/status/404", 5, 1);
    await observer.settle(() => observer!.total(client.pid) >= 505 && observer!.total(server.pid) >= 505);
    expect(observer.counts(server.pid, "server")).toEqual({ "http2 GET /users/{id} 200": 500, "http2 GET /status/{id} 404": 5 });
    expect(observer.counts(client.pid, "client")).toEqual({ "http2 GET /users/{id} 200": 500, "http2 GET /status/{id} 404 error": 5 });
  });

  it("measures the server's time", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("");
    await client.request("/slow", 10, 1);
    await observer.settle(() => observer!.total(client.pid) >= 10 && observer!.total(server.pid) >= 10);
    const own = observer.requests.filter(({ pid }) => [client.pid, server.pid].includes(pid));
    for (const { durationNs, firstByteNs } of own) {
      expect(durationNs / 1e6).toBeGreaterThan(49);
      expect(firstByteNs! / 1e6).toBeGreaterThan(49);
    }
    // A busy machine may delay one of them, but not all twenty.
    expect(Math.min(...own.map(({ durationNs }) => durationNs)) / 1e6).toBeLessThan(250);
  });

  it("counts gRPC calls with their status, unary and streaming", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("grpc-");
    await client.request("/shop.v1.Cart/Buy", 500, 20);
    await client.request("/shop.v1.Cart/Fail", 10, 2);
    await client.request("/shop.v1.Cart/List", 30, 5);
    await client.request("/shop.v1.Cart/Missing", 4, 1);
    const expected = {
      "grpc POST shop.v1.Cart/Buy 0": 500,
      "grpc POST shop.v1.Cart/Fail 13 error": 10,
      "grpc POST shop.v1.Cart/List 0": 30,
      "grpc POST shop.v1.Cart/Missing 12 error": 4,
    };
    await observer.settle(() => observer!.total(client.pid) >= 544 && observer!.total(server.pid) >= 544);
    expect(observer.counts(client.pid, "client")).toEqual(expected);
    expect(observer.counts(server.pid, "server")).toEqual(expected);
    expect(observer.losses(client.pid, server.pid)).toEqual([]);
  });

  it("counts gRPC calls on connections that are older than the agent", async () => {
    const { server, client } = await start("grpc-", (early) => early.request("/shop.v1.Cart/Buy", 20, 5));
    observer = await Http2Observer.open();
    await client.request("/shop.v1.Cart/Buy", 200, 10);
    await client.request("/shop.v1.Cart/Fail", 10, 2);
    await observer.settle(() => observer!.total(client.pid) >= 210 && observer!.total(server.pid) >= 210);
    for (const [pid, role] of [
      [client.pid, "client"],
      [server.pid, "server"],
    ] as const) {
      expect(observer.counts(pid, role)).toEqual({ "grpc POST shop.v1.Cart/Buy unknown": 200, "grpc POST shop.v1.Cart/Fail 13 error": 10 });
    }
  });

  it("counts the same at system calls", async () => {
    observer = await Http2Observer.open("syscalls");
    const { server, client } = await start("");
    await client.request("/users/#", 500, 20);
    await client.request("/orders", 40, 10, 20_000);
    await observer.settle(() => observer!.total(client.pid) >= 540 && observer!.total(server.pid) >= 540);
    const expected = { "http2 GET /users/{id} 200": 500, "http2 POST /orders 200": 40 };
    expect(observer.counts(client.pid, "client")).toEqual(expected);
    expect(observer.counts(server.pid, "server")).toEqual(expected);
  });

  it("reads paths in header blocks of many kilobytes", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("");
    await client.request("/heavy/#", 40, 5);
    await client.request("/users/#", 40, 5);
    await client.request("/heavier/#", 20, 2);
    await client.request("/users/#", 10, 5);
    await observer.settle(() => observer!.total(client.pid) >= 110 && observer!.total(server.pid) >= 110);
    const expected = { "http2 GET /heavy/{id} 200": 40, "http2 GET /users/{id} 200": 50, "http2 GET /heavier/{id} 200": 20 };
    expect(observer.counts(client.pid, "client")).toEqual(expected);
    expect(observer.counts(server.pid, "server")).toEqual(expected);
  });

  it("counts exactly when frames are split at any byte, in one call or several", async () => {
    observer = await Http2Observer.open();
    const server = new Http2Program("server");
    const splitter = new Http2Program("splitter", await server.line());
    const client = new Http2Program("client", await splitter.line());
    expect(await client.line()).toBe("ready");
    await client.request("/users/#", 600, 30);
    await client.request("/orders", 40, 10, 20_000);
    await client.request("/big", 10, 5);
    const expected = { "http2 GET /users/{id} 200": 600, "http2 POST /orders 200": 40, "http2 GET /big 200": 10 };
    await observer.settle(() => [client, server].every(({ pid }) => observer!.total(pid) >= 650) && observer!.total(splitter.pid) >= 1300);
    expect(observer.counts(splitter.pid, "server")).toEqual(expected);
    expect(observer.counts(splitter.pid, "client")).toEqual(expected);
    expect(observer.counts(client.pid, "client")).toEqual(expected);
    expect(observer.counts(server.pid, "server")).toEqual(expected);
    expect(observer.losses(client.pid, splitter.pid, server.pid)).toEqual([]);
  });

  it("counts requests that nginx serves and proxies", async (context) => {
    context.skip(!hasProgram("nginx"), "needs nginx");
    const behind = new Http2Program("grpc-server");
    const nginx = await startNginx(await behind.line());
    observer = await Http2Observer.open();
    const browser = new Http2Program("client", String(nginx.port));
    expect(await browser.line()).toBe("ready");
    await browser.request("/api/#", 1000, 50);
    await browser.request("/index.html", 40, 8);
    await browser.request("/missing", 5, 1);
    const caller = new Http2Program("grpc-client", String(nginx.port));
    expect(await caller.line()).toBe("ready");
    await caller.request("/shop.v1.Cart/Buy", 100, 5);
    await caller.request("/shop.v1.Cart/Fail", 10, 2);
    const served = {
      "http2 GET /api/{id} 200": 1000,
      "http2 GET /index.html 200": 40,
      "http2 GET /missing 404": 5,
      "grpc POST shop.v1.Cart/Buy 0": 100,
      "grpc POST shop.v1.Cart/Fail 13 error": 10,
    };
    await observer.settle(() => observer!.total(nginx.pid) >= 1265 && observer!.total(behind.pid) >= 110);
    expect(observer.counts(nginx.pid, "server")).toEqual(served);
    expect(observer.counts(nginx.pid, "client")).toEqual({
      "grpc POST shop.v1.Cart/Buy 0": 100,
      "grpc POST shop.v1.Cart/Fail 13 error": 10,
    });
    const pages = observer.requests.filter(({ pid, route }) => pid === nginx.pid && route === "/index.html");
    for (const { responseBytes } of pages) expect(responseBytes).toBeGreaterThan(100_000);
  });

  it("counts requests of curl, one connection each", async (context) => {
    context.skip(!hasProgram("curl"), "needs curl");
    observer = await Http2Observer.open();
    const server = new Http2Program("server");
    const port = await server.line();
    for (let count = 0; count < 5; count++) {
      await run("curl", ["-s", "--http2-prior-knowledge", `http://127.0.0.1:${port}/a/${count}`]);
    }
    await observer.settle(() => observer!.total(server.pid) >= 5);
    expect(observer.counts(server.pid, "server")).toEqual({ "http2 GET /a/{id} 200": 5 });
  });

  it("follows an upgrade from HTTP/1 to HTTP/2", async () => {
    observer = await Http2Observer.open();
    const server = new Http2Program("upgrade-server");
    const client = new Http2Program("client", await server.line(), "upgrade");
    expect(await client.line()).toBe("ready");
    await client.request("/users/#", 100, 10);
    await observer.settle(() => observer!.total(client.pid) >= 100 && observer!.total(server.pid) >= 100);
    for (const [pid, role] of [
      [client.pid, "client"],
      [server.pid, "server"],
    ] as const) {
      expect(observer.counts(pid, role)).toEqual({ "http2 GET /users/{id} 200": 100 });
    }
  });

  it("survives two hundred connections that violate the protocol, and counts valid requests", async () => {
    observer = await Http2Observer.open();
    const { server, client } = await start("");
    const port = ports.get(client) ?? 0;
    const random = seededRandom(4);
    const violations = Array.from({ length: 200 }, () => violation(random));
    for (let from = 0; from < violations.length; from += 20) {
      const broken = violations.slice(from, from + 20).map((bytes) => send(port, bytes));
      await client.request("/users/#", 20, 10);
      await Promise.all(broken);
    }
    await observer.settle(() => observer!.total(client.pid) >= 200);
    expect(observer.counts(client.pid, "client")).toEqual({ "http2 GET /users/{id} 200": 200 });
    expect(observer.counts(server.pid, "server")["http2 GET /users/{id} 200"]).toBe(200);
    for (const { route } of observer.requests) expect(route.length).toBeLessThanOrEqual(120);
  });
});

/** Usually the preface, then frames with random headers and contents, some of them truncated. */
function violation(random: () => number): Buffer {
  const below = (limit: number): number => Math.floor(random() * limit);
  const parts: Buffer[] =
    below(10) === 0 ? [] : [Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Buffer.from("000000040000000000", "hex")];
  for (let frame = below(10); frame >= 0; frame--) {
    const payload = seededBytes(random, below(60));
    const head = Buffer.alloc(9);
    head.writeUIntBE(below(4) === 0 ? below(1 << 24) : payload.length, 0, 3);
    head[3] = below(3) === 0 ? below(256) : below(10);
    head[4] = below(256);
    head.writeUInt32BE(below(3) === 0 ? below(2 ** 32) : below(50), 5);
    parts.push(head, payload);
  }
  const all = Buffer.concat(parts);
  return all.subarray(0, below(4) === 0 ? below(all.length) : all.length);
}

/** Resolves when the connection has ended; closes it after a timeout. */
function send(port: number, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    socket.on("error", () => {}).on("close", () => resolve());
    socket.setTimeout(100, () => socket.destroy()).resume();
  });
}
