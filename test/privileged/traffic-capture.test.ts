/** Captures of real traffic, from the BPF programs to the output of the traffic process. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLogger } from "../../src/base/log.ts";
import type { CapturedRequest, CaptureOrder, TrafficReport, TrafficSettings } from "../../src/traffic/core/messages.ts";
import { type KernelHooks, openKernelHooks } from "../../src/traffic/kernel/kernel-hooks.ts";
import { type OpenedParts, openTrafficParts } from "../../src/traffic/traffic-parts.ts";
import type { WindowDraft } from "../../src/traffic/traffic-runtime.ts";
import { probesSkipReason, requestsObject } from "../support/bpf-skip-reason.ts";
import { hasProgram } from "../support/has-program.ts";
import { testTrafficSettings } from "../support/traffic-settings.ts";
import { waitFor } from "../support/wait-for.ts";

const children: ChildProcess[] = [];

/** A process that runs a support script; `line()` is its next line of output. */
function start(script: string, ...args: string[]): { pid: number; line: () => Promise<string>; send: (text: string) => void } {
  const file = fileURLToPath(new URL(`../support/${script}`, import.meta.url));
  const child = spawn(process.execPath, [file, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  return {
    pid: child.pid ?? 0,
    line: async () => {
      await waitFor("a line of the program", () => lines.length > 0, { intervalMs: 5 });
      return lines.shift()!;
    },
    send: (text) => void child.stdin.write(`${text}\n`),
  };
}

class Capture implements AsyncDisposable {
  readonly reports: TrafficReport[] = [];
  readonly parts: OpenedParts;
  /** Number of records that the BPF programs copied for captures. */
  copies = 0;
  /** False simulates a hanging traffic process. */
  isSweeping = true;
  readonly #hooks: KernelHooks;
  readonly #timer: NodeJS.Timeout;

  private constructor(hooks: KernelHooks, settings: TrafficSettings) {
    this.#hooks = hooks;
    this.parts = openTrafficParts({
      hooks,
      settings,
      report: (report) => this.reports.push(report),
      log: createLogger("test", "error", () => {}),
    });
    const ring = hooks.object.ring("events");
    this.#timer = setInterval(() => {
      ring.drain((view, offset, length, bytes) => {
        if ((view.getUint8(offset + 3) & 4) !== 0) this.copies++;
        this.parts.onRecord(view, offset, length, bytes);
      });
      if (this.isSweeping) this.parts.sweep(process.hrtime.bigint());
    }, 20);
  }

  static async open(more: Partial<TrafficSettings> = {}): Promise<Capture> {
    const all = { ...testTrafficSettings, ...more };
    return new Capture(await openKernelHooks({ settings: all, ownPids: [], objectPath: requestsObject }), all);
  }

  get requests(): CapturedRequest[] {
    return this.reports.filter((report) => report.kind === "captured");
  }

  async waitFor(count: number): Promise<CapturedRequest[]> {
    await waitFor(`${count} captured requests`, () => this.requests.length >= count, {
      details: () => JSON.stringify(this.requests.map(({ target }) => target)),
    });
    return this.requests;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.parts[Symbol.asyncDispose]();
    await this.#hooks[Symbol.asyncDispose]();
  }
}

function orderFor(pid: number, more: Partial<CaptureOrder> = {}): CaptureOrder {
  const filters = { route: null, status: null, minDurationMs: 0, limit: 1000, includeBody: false };
  return { captureId: "c", pids: [pid], durationMs: 20_000, ...filters, ...more };
}

/** A server that forks a child per connection. */
const forkingServer = `
import http.server, socketserver
class Server(socketserver.ForkingMixIn, http.server.HTTPServer): pass
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *words): pass
server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
`;

const asText = (value: unknown): string => JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part));

describe("captures", () => {
  let capture: Capture | undefined;
  beforeEach((context) => {
    const reason = probesSkipReason();
    context.skip(reason !== undefined, reason);
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    await capture?.[Symbol.asyncDispose]();
    capture = undefined;
  });

  async function startHttp(): Promise<{ server: number; client: number; ask: (options: object) => Promise<void> }> {
    const server = start("http-program.mjs", "server");
    const client = start("http-program.mjs", "client", await server.line());
    expect(await client.line()).toBe("ready");
    return {
      server: server.pid,
      client: client.pid,
      ask: async (options) => {
        client.send(JSON.stringify(options));
        expect(await client.line()).toBe("done");
      },
    };
  }

  const post = {
    method: "POST",
    path: "/pay/42?access_token=hidden-text",
    headers: { authorization: "Bearer hidden-text-at-all", "content-type": "application/json", "user-agent": "http-program" },
    body: '{"amount":12,"password":"hidden-text"}',
  };

  it("shows redacted requests of the selected process, also on older connections", async () => {
    const { server, ask } = await startHttp();
    await ask(post);
    capture = await Capture.open();
    await ask(post);
    capture.parts.startCapture(orderFor(server, { includeBody: true }));
    for (let count = 0; count < 20; count++) await ask(post);
    const requests = await capture.waitFor(20);
    await sleep(100);
    expect(requests).toHaveLength(20);
    for (const request of requests) {
      expect(request).toMatchObject({
        ...{ pid: server, role: "server", protocol: "http", isTls: false, clientAddress: "127.0.0.1", serverAddress: "127.0.0.1" },
        ...{ method: "POST", target: "/pay/42?access_token=***", route: "/pay/{id}", status: "200", isError: false },
        requestBody: '{"amount":12,"password":"***"}',
        responseBody: '{"ok":true,"token":"***"}',
      });
      expect(request.requestHeaders).toContainEqual(["user-agent", "http-program"]);
      expect(request.requestHeaders).toContainEqual(["authorization", "Bearer ***"]);
      expect(request.responseHeaders).toContainEqual(["set-cookie", "***"]);
      expect(request.durationNs).toBeGreaterThan(0);
      expect(request.durationNs).toBeLessThan(30e9);
    }
    expect(asText(capture.reports)).not.toContain("hidden-text");
  });

  it("shows sizes and durations of bodies that are longer than the copied part", async () => {
    capture = await Capture.open();
    const { server, client, ask } = await startHttp();
    capture.parts.startCapture(orderFor(server));
    capture.parts.startCapture(orderFor(client, { captureId: "d" }));
    const body = "x".repeat(100_000);
    for (let count = 0; count < 2; count++) {
      await ask({ path: "/bytes/20000000" });
      await ask({ method: "POST", path: "/upload", headers: { "content-length": body.length }, body });
    }
    const pausedNs = process.hrtime.bigint();
    await sleep(700);
    await ask({ path: "/after" });
    const requests = await capture.waitFor(10);
    expect(requests).toHaveLength(10);
    for (const { target, responseBytes, requestBytes, durationNs, at } of requests) {
      if (target === "/bytes/20000000") expect(responseBytes - 20_000_000).toSatisfy((head: number) => head > 50 && head < 1_000);
      else expect(responseBytes).toBeLessThan(1_000);
      if (target === "/upload") expect(requestBytes - body.length).toSatisfy((head: number) => head > 50 && head < 1_000);
      else expect(requestBytes).toBeLessThan(1_000);
      // The pause does not belong to any request.
      if (target !== "/after") expect(Number(at.monoNs) + durationNs).toBeLessThan(Number(pausedNs) + 100e6);
    }
  });

  it("applies filters and limit, then stops copying", async () => {
    capture = await Capture.open();
    const { client, ask } = await startHttp();
    capture.parts.startCapture(orderFor(client, { status: "5xx", limit: 3 }));
    for (let count = 0; count < 5; count++) {
      await ask({ path: "/status/200" });
      await ask({ path: "/status/503" });
    }
    await waitFor("the end", () => capture?.reports.some(({ kind }) => kind === "capture-ended"));
    expect(capture.requests.map(({ role, target, status }) => [role, target, status])).toEqual(
      Array(3).fill(["client", "/status/503", "503"]),
    );
    expect(capture.reports.at(-1)).toEqual({ kind: "capture-ended", captureId: "c", reason: "limit" });
    await sleep(100);
    const before = capture.copies;
    for (let count = 0; count < 5; count++) await ask({ path: "/status/503" });
    await sleep(100);
    expect(capture.copies).toBe(before);
  });

  it("shows responses of children that were forked for a connection", async (context) => {
    if (!hasProgram("python3")) context.skip("needs python3");
    const child = spawn("python3", ["-c", forkingServer], { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    const port = Number(String((await once(child.stdout, "data"))[0]));
    capture = await Capture.open();
    capture.parts.startCapture(orderFor(child.pid ?? 0));
    for (const path of ["one", "two"]) await (await fetch(`http://127.0.0.1:${port}/${path}`)).text();
    await capture.waitFor(2);
    expect(capture.requests.map(({ target, pid, role }) => [target, pid, role])).toEqual([
      ["/one", child.pid, "server"],
      ["/two", child.pid, "server"],
    ]);
  });

  it("filters by duration", async () => {
    capture = await Capture.open();
    const { server, ask } = await startHttp();
    capture.parts.startCapture(orderFor(server, { minDurationMs: 600 }));
    for (const path of ["/fast", "/slow", "/fast", "/slow"]) await ask({ path });
    await waitFor("both", () => capture?.requests.filter(({ target }) => target === "/slow").length === 2);
    await sleep(100);
    // On a machine that stalls, a fast request may be slow.
    for (const { durationNs } of capture.requests) expect(durationNs).toBeGreaterThanOrEqual(600e6);
  });

  it("expires in the kernel even if it is never stopped", async () => {
    capture = await Capture.open();
    const { server, ask } = await startHttp();
    const durationMs = 5_000;
    const startedMs = performance.now();
    capture.parts.startCapture(orderFor(server, { durationMs }));
    await ask({ path: "/one" });
    await capture.waitFor(1);
    capture.isSweeping = false;
    await sleep(durationMs + 50 - (performance.now() - startedMs));
    const before = capture.copies;
    expect(before).toBeGreaterThan(0);
    for (let count = 0; count < 5; count++) await ask({ path: "/two" });
    await sleep(150);
    expect(capture.copies).toBe(before);
    expect(capture.reports).toHaveLength(1);
    capture.isSweeping = true;
    await waitFor("the end", () => capture?.reports.length === 2);
    expect(capture.reports.at(-1)).toEqual({ kind: "capture-ended", captureId: "c", reason: "expired" });
  });

  it("shows HTTP/2 requests with their headers and bodies", async () => {
    capture = await Capture.open();
    const server = start("http2-program.mjs", "server");
    const client = start("http2-program.mjs", "client", await server.line());
    expect(await client.line()).toBe("ready");
    capture.parts.startCapture(orderFor(server.pid, { includeBody: true }));
    client.send("/orders/7?key=hidden-text 10 3 3000");
    expect(await client.line()).toBe("done");
    const requests = await capture.waitFor(10);
    for (const request of requests) {
      expect(request).toMatchObject({
        protocol: "http2",
        method: "POST",
        target: "/orders/7?key=***",
        route: "/orders/{id}",
        status: "200",
      });
      expect(request.requestHeaders).toContainEqual(["x-token", "***"]);
      expect(request.responseHeaders).toContainEqual(["content-type", "text/plain"]);
      expect(request.responseBody).toBe("hello");
      // A truncated word may be the first half of a secret, so it is redacted.
      expect(request.requestBody).toBe("…");
      expect(request.requestBytes).toBeGreaterThan(3000);
    }
    expect(asText(capture.reports)).not.toContain("hidden-text");
    capture.parts.stopCapture("c");
  });

  it("shows requests inside TLS", async (context) => {
    context.skip(!hasProgram("openssl"), "needs openssl");
    const directory = mkdtempSync(join(tmpdir(), "coral-capture-"));
    const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
    const args = [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "2",
      "-subj",
      "/CN=localhost",
    ];
    execFileSync("openssl", [...args, "-keyout", key, "-out", cert], { stdio: "ignore" });
    const server = start("http2-program.mjs", "server", "tls", key, cert);
    const port = await server.line();
    rmSync(directory, { recursive: true });
    capture = await Capture.open({ tls: { isEnabled: true, excludedExecutables: [] } });
    const node = realpathSync(process.execPath);
    await waitFor("probes in node", () => capture?.parts.tls().some(({ path, processes }) => path === node && processes > 0), {
      details: () => JSON.stringify(capture?.parts.tls()),
    });
    capture.parts.startCapture(orderFor(server.pid, { includeBody: true }));
    const client = start("http2-program.mjs", "client", port, "tls");
    expect(await client.line()).toBe("ready");
    client.send("/orders/7?key=hidden-text 5 1 30");
    expect(await client.line()).toBe("done");
    for (const request of await capture.waitFor(5)) {
      expect(request).toMatchObject({
        protocol: "http2",
        isTls: true,
        role: "server",
        target: "/orders/7?key=***",
        status: "200",
        responseBody: "hello",
      });
    }
  });

  it("does not change counted requests and names", async () => {
    capture = await Capture.open();
    const server = start("http2-program.mjs", "grpc-server");
    const port = await server.line();
    const client = start("http2-program.mjs", "grpc-client", port);
    expect(await client.line()).toBe("ready");
    capture.parts.startCapture(orderFor(server.pid, { limit: 5 }));
    client.send("/shop.v1.Cart/Buy 50 5");
    expect(await client.line()).toBe("done");
    await capture.waitFor(5);
    await sleep(150);
    const draft: WindowDraft = { requests: [], losses: new Map(), names: [], peerNames: [] };
    capture.parts.collect(draft, process.hrtime.bigint());
    const groups = draft.requests.filter(({ pid }) => pid === server.pid || pid === client.pid);
    const common = {
      protocol: "grpc",
      isTls: false,
      serverPort: Number(port),
      peerAddress: "127.0.0.1",
      method: "POST",
      count: 50,
      status: "0",
    };
    expect(groups.sort((one, other) => one.role.localeCompare(other.role))).toMatchObject([
      { ...common, pid: client.pid, role: "client", route: "shop.v1.Cart/Buy" },
      { ...common, pid: server.pid, role: "server", route: "shop.v1.Cart/Buy" },
    ]);
    for (const { duration, count } of groups) expect(duration.counts.reduce((sum, one) => sum + one, 0)).toBe(count);
    expect(draft.names).toContainEqual({ pid: server.pid, port: Number(port), source: "grpc_service", name: "shop.v1.Cart", requests: 50 });
    expect(capture.requests).toHaveLength(5);
  });
});
