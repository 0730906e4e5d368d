/** HTTPS: counts of the probes in TLS libraries, compared with what clients sent. */

import { spawn, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { coarseLayout, fineLayout, percentileNs } from "../../src/base/latency-histogram.ts";
import type { TrafficRole, TrafficSettings } from "../../src/traffic/core/messages.ts";
import type { KernelHooks } from "../../src/traffic/kernel/kernel-hooks.ts";
import { hideFunctionTable } from "../../src/traffic/tls/hidden-function-table.fixture.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { startPostgres } from "../support/database-servers.ts";
import { hasProgram } from "../support/has-program.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { type TlsClient, TlsPrograms } from "../support/tls-programs.ts";
import { waitFor } from "../support/wait-for.ts";

const libssl = ["/usr/lib/x86_64-linux-gnu/libssl.so.3", "/usr/lib64/libssl.so.3"].find((path) => existsSync(path));

const skipReason = process.arch === "x64" ? probesSkipReason("openssl") : "needs x86-64";
let programs: TlsPrograms;
let observer: RequestObserver;

/** Resolves when probes are attached to files with these names. A program that uses them must be running; Node always is. */
async function observe(
  names: readonly string[],
  tls: Partial<TrafficSettings["tls"]> = {},
  kind: KernelHooks["kind"] = "sockets",
): Promise<void> {
  observer = await RequestObserver.open({ kind, settings: { tls: { isEnabled: true, excludedExecutables: [], ...tls } } });
  await attached(names);
}

async function attached(names: readonly string[]): Promise<void> {
  const look = (): boolean => {
    observer.look();
    return names.every((name) => observer.tls().some(({ path, problem }) => basename(path) === name && problem === null));
  };
  await waitFor(`probes in ${names.join(", ")}`, look, { intervalMs: 200 });
}

/** Checks that both ends counted exactly these requests, all as TLS. */
async function expectCounts(
  port: number,
  expected: Record<string, number>,
  roles: readonly TrafficRole[] = ["server", "client"],
): Promise<void> {
  const sorted = (counts: Record<string, number>): string => JSON.stringify(Object.entries(counts).sort());
  const isThere = (): boolean => {
    observer.look(true);
    return roles.every((role) => sorted(observer.counts(port, role)) === sorted(expected));
  };
  await waitFor("the counts", isThere).catch(() => undefined);
  for (const role of ["server", "client"] as const) {
    expect({ role, counts: observer.counts(port, role) }).toEqual({ role, counts: roles.includes(role) ? expected : {} });
    expect(observer.of(port, role).filter(({ isTls }) => !isTls)).toEqual([]);
  }
}

function pidsOf(port: number, role: TrafficRole): Set<number> {
  return new Set(observer.of(port, role).map(({ pid }) => pid));
}

describe("HTTPS with probes in TLS libraries", () => {
  beforeEach((context) => {
    context.skip(skipReason !== undefined, skipReason);
    programs = new TlsPrograms();
  });
  afterEach(async () => {
    if (skipReason !== undefined) return;
    programs[Symbol.dispose]();
    await observer[Symbol.asyncDispose]();
  });

  const python = (port: number): TlsClient => programs.client("python3", ["client.py", String(port)]);
  const node = (port: number | string, kind = "http1"): TlsClient => programs.client(process.execPath, ["client.mjs", String(port), kind]);
  const nodeName = basename(process.execPath);

  it.skipIf(!hasProgram("nginx") || !hasProgram("curl"))("counts nginx and its clients curl, Python and Node, each once", async () => {
    const { port } = await programs.serve("nginx", ["-c", programs.path("nginx.conf")]);
    await observe(["libssl.so.3", nodeName]);
    const urls = ["/from-curl", "/from-curl", "/missing"].flatMap((path) => [`https://127.0.0.1:${port}${path}`, "-o", "/dev/null"]);
    expect(spawnSync("curl", ["-sk", "--http1.1", ...urls]).status).toBe(0);
    const [first, second] = [python(port), node(port)];
    await first.request("/from-python", 50);
    await second.request("/from-node", 50);
    await expectCounts(port, { "GET /from-curl 200": 2, "GET /missing 404": 1, "GET /from-python 200": 50, "GET /from-node 200": 50 });
    expect(pidsOf(port, "server").size).toBe(1);
    expect([...pidsOf(port, "client")]).toEqual(expect.arrayContaining([first.pid, second.pid]));
  });

  it.skipIf(!hasProgram("nginx") || !hasProgram("curl"))(
    "counts the bytes of a response once, even if writes are retried because the buffer is full",
    async () => {
      const { port } = await programs.serve("nginx", ["-c", programs.path("nginx.conf")]);
      writeFileSync(programs.path("large"), Buffer.alloc(12 << 20, "coral"));
      // nginx's worker runs as another user.
      chmodSync(programs.directory, 0o711);
      await observe(["libssl.so.3", nodeName]);
      const one = [`https://127.0.0.1:${port}/large`, "-o", "/dev/null"];
      const format = "%{size_header} %{size_download}\\n";
      const { status, stdout } = spawnSync("curl", ["-sk", "--http1.1", "--limit-rate", "8M", "-w", format, ...one, ...one], {
        encoding: "utf8",
      });
      expect(status).toBe(0);
      const sentBytes = stdout.split(/\s+/).reduce((sum, text) => sum + Number(text), 0);
      expect(sentBytes).toBeGreaterThan(24 << 20);
      await expectCounts(port, { "GET /large 200": 2 });
      for (const role of ["server", "client"] as const) {
        expect(observer.of(port, role).reduce((sum, { responseBytes }) => sum + responseBytes, 0)).toBe(sentBytes);
        const durationsMs = observer.of(port, role).reduce((sum, { durationSumNs }) => sum + durationSumNs, 0) / 1e6;
        expect(durationsMs).toBeGreaterThan(role === "client" ? 2_000 : 200);
      }
    },
  );

  it("counts requests of a Python server with one thread per connection", async () => {
    const { pid, port } = await programs.serve("python3", ["server.py", "PORT", programs.directory]);
    await observe(["libssl.so.3", nodeName]);
    const clients = [python(port), python(port), node(port)];
    await Promise.all(clients.map((client, index) => client.request(`/c${"abc"[index]}`, 30)));
    await expectCounts(port, { "GET /ca 200": 30, "GET /cb 200": 30, "GET /cc 200": 30 });
    expect(pidsOf(port, "server")).toEqual(new Set([pid]));
  });

  it("counts requests of a Node server with many concurrent connections", async () => {
    const { pid, port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http1"]);
    const clients = Array.from({ length: 6 }, (_, index) => (index % 2 === 0 ? python(port) : node(port)));
    await observe(["libssl.so.3", nodeName]);
    await Promise.all(clients.map((client) => client.request("/together", 40)));
    await clients[0]?.request("/missing", 3);
    await expectCounts(port, { "GET /together 200": 240, "GET /missing 404": 3 });
    expect(pidsOf(port, "server")).toEqual(new Set([pid]));
    expect(pidsOf(port, "client")).toEqual(new Set(clients.map((client) => client.pid)));
  });

  it("counts requests that Node writes during the handshake once", async () => {
    const { port } = await programs.serve("python3", ["server.py", "PORT", programs.directory]);
    await observe(["libssl.so.3", nodeName]);
    await node(port, "close").request("/first", 20);
    await expectCounts(port, { "GET /first 200": 20 });
  });

  it("distinguishes connections that one thread of Node opens at the same time", async () => {
    const [{ port: first }, { port: second }] = [
      await programs.serve("python3", ["server.py", "PORT", programs.directory]),
      await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http1"]),
    ];
    await observe(["libssl.so.3", nodeName]);
    await node(`${first},${second}`, "fetch").request("/of/", 5);
    await expectCounts(first, { "GET /of/a 200": 40 });
    await expectCounts(second, { "GET /of/b 200": 40 });
  });

  it("counts the same with hooks at system calls", async () => {
    const { pid, port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http1"]);
    const clients = [python(port), node(port)];
    await observe(["libssl.so.3", nodeName], {}, "syscalls");
    await Promise.all(clients.map((client) => client.request("/by-system-calls", 40)));
    await expectCounts(port, { "GET /by-system-calls 200": 80 });
    expect(pidsOf(port, "server")).toEqual(new Set([pid]));
  });

  it.each(["sockets", "syscalls"] as const)("measures the duration of a response independently of the next request (%s)", async (kind) => {
    const { port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http1"]);
    const client = node(port);
    await observe([nodeName], {}, kind);
    let longestMs = 100;
    for (let request = 0; request < 4; request++) {
      const startedMs = performance.now();
      await client.request("/late", 1);
      longestMs = Math.max(longestMs, performance.now() - startedMs);
      // Longer than a response takes, even on a slow machine.
      await sleep(3 * longestMs);
    }
    await expectCounts(port, { "GET /late 200": 4 });
    for (const role of ["server", "client"] as const) {
      for (const { duration, firstByte } of observer.of(port, role)) {
        for (const [layout, histogram] of [
          [fineLayout, duration],
          [coarseLayout, firstByte],
        ] as const) {
          expect(percentileNs(layout, histogram, 0)).toBeGreaterThan(40e6);
          expect(percentileNs(layout, histogram, 1)).toBeLessThan(2 * longestMs * 1e6);
        }
      }
    }
  });

  it("does not mistake an alert for the end of a response, regardless of its record length", async () => {
    const { port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http1"]);
    const client = node(port, "cbc");
    await observe([nodeName]);
    // Done when the server has closed the connection, four seconds after its response.
    await client.request("/close-later", 1);
    await expectCounts(port, { "GET /close-later 200": 1 });
    for (const role of ["server", "client"] as const) {
      for (const { durationSumNs } of observer.of(port, role))
        expect({ role, isShort: durationSumNs < 3.5e9 }).toEqual({ role, isShort: true });
    }
  });

  it("counts HTTP/2 over TLS, with its paths", async () => {
    const { pid, port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http2"]);
    await observe([nodeName]);
    const client = node(port, "http2");
    await client.request("/over/http2", 25);
    await client.request("/missing", 2);
    await expectCounts(port, { "GET /over/http2 200": 25, "GET /missing 404": 2 });
    expect([pidsOf(port, "server"), pidsOf(port, "client")]).toEqual([new Set([pid]), new Set([client.pid])]);
  });

  describe.skipIf(!hasProgram("cc") || !existsSync("/usr/include/openssl/ssl.h") || libssl === undefined)(
    "of OpenSSL used in unusual ways",
    () => {
      it.each([
        ["with probes where plaintext is copied", false],
        ["with probes at the entry and return of calls, if the copy site is unknown", true],
      ] as const)("counts each request once %s", async (_, isUnknown) => {
        const name = isUnknown ? "hidden.so" : basename(libssl ?? "");
        const environment = isUnknown ? { LD_LIBRARY_PATH: programs.directory } : {};
        if (isUnknown) {
          const bytes = readFileSync(libssl ?? "");
          hideFunctionTable(bytes);
          writeFileSync(programs.path(name), bytes);
          symlinkSync(name, programs.path("libssl.so.3"));
        }
        const binary = programs.buildRecords();
        const { pid, port } = await programs.serve(binary, ["server", "PORT", programs.directory], environment);
        await observe([name]);
        const clients = ["1.2", "1.3"].map((version) => programs.client(binary, ["client", String(port), version], environment));
        await Promise.all(clients.map((client) => client.request("/once", 40)));
        await Promise.all(clients.map((client) => client.request("/parts", 2)));
        await Promise.all(clients.map((client) => client.request("/twice", 20)));
        await Promise.all(clients.map((client) => client.request("/parts", 2)));
        await expectCounts(port, { "GET /once 200": 80, "GET /twice 200": 40, "GET /parts 200": 8 });
        // Handshake bytes are not included.
        const bytesOf = (path: string): number => `GET ${path} HTTP/1.1\r\nHost: records\r\n\r\n`.length;
        for (const role of ["server", "client"] as const) {
          const sum = observer.of(port, role).reduce((total, { requestBytes }) => total + requestBytes, 0);
          expect({ role, sum }).toEqual({ role, sum: 80 * bytesOf("/once") + 40 * bytesOf("/twice") + 8 * bytesOf("/parts") });
          // A partial write is retried with the rest, which counts once.
          const answered = observer.of(port, role).filter(({ route }) => route === "/parts");
          expect({ role, sum: answered.reduce((total, { responseBytes }) => total + responseBytes, 0) }).toEqual({
            role,
            sum: 8 * 100_000,
          });
        }
        expect(pidsOf(port, "server")).toEqual(new Set([pid]));
        expect(pidsOf(port, "client")).toEqual(new Set(clients.map((client) => client.pid)));
      });
    },
  );

  describe.skipIf(!hasProgram("go"))("of Go", () => {
    it.each([
      ["with symbols", "http1", []],
      ["stripped", "http1", ["-ldflags", "-s -w"]],
      ["stripped, HTTP/2", "http2", ["-ldflags", "-s -w"]],
    ] as [string, string, string[]][])("counts requests of server and client %s", async (_, kind, options) => {
      const binary = programs.buildGo("program", ...options);
      const { pid, port } = await programs.serve(binary, ["server", "PORT", programs.directory, kind]);
      const client = programs.client(binary, ["client", String(port), kind]);
      const other = python(port);
      await observe(["program", "libssl.so.3"]);
      await Promise.all([client.request("/from-go", 60), other.request("/from-python", 40)]);
      await other.request("/missing", 2);
      await expectCounts(port, { "GET /from-go 200": 60, "GET /from-python 200": 40, "GET /missing 404": 2 });
      expect(pidsOf(port, "server")).toEqual(new Set([pid]));
      expect(pidsOf(port, "client")).toEqual(new Set([client.pid, other.pid]));
    });

    it("attaches to a program that starts later within seconds", async () => {
      await observe([nodeName]);
      const binary = programs.buildGo("later", "-ldflags", "-s -w");
      const { pid, port } = await programs.serve(binary, ["server", "PORT", programs.directory, "http1"]);
      await attached(["later"]);
      const client = programs.client(binary, ["client", String(port), "http1"]);
      await client.request("/late", 10);
      await expectCounts(port, { "GET /late 200": 10 });
      expect(pidsOf(port, "server")).toEqual(new Set([pid]));
    });
  });

  it("names a program whose TLS it cannot read while its connections are open", async (context) => {
    context.skip(!hasProgram("python3"), "needs python3");
    await observe(["node"]);
    // The beginning of a ClientHello, from a program without a TLS library.
    const script = `import socket, sys
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer = server.accept()[0]
client.sendall(bytes.fromhex("160301020001000100fc0303"))
peer.recv(64)
sys.stdin.read()`;
    const program = spawn("python3", ["-c", script], { stdio: ["pipe", "ignore", "inherit"] });
    try {
      const isReported = (): boolean => {
        observer.look();
        return observer.tls().some(({ path, problem }) => /python3/.test(path) && problem?.includes("no known TLS library") === true);
      };
      await waitFor("the program without a library", isReported, { intervalMs: 200 });
      const unread = { pid: program.pid, reason: "tls-unreadable", detail: "no known TLS library was found in it", count: 1 };
      expect(observer.unseen).toContainEqual(unread);
      // The count is of the whole host: another program whose TLS cannot be read may add to it.
      const isAlone = !observer.tls().some(({ path, problem }) => problem !== undefined && !/python3/.test(path));
      if (isAlone) expect(observer.losses.get("tls-opaque") ?? 0).toBe(0);
    } finally {
      program.kill();
    }
  });

  it("observes connections that are older than the probes", async () => {
    const { port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http1"]);
    const clients = [python(port), python(port)];
    await Promise.all(clients.map((client) => client.request("/before", 5)));
    await observe(["libssl.so.3", nodeName]);
    await Promise.all(clients.map((client) => client.request("/after", 20)));
    await expectCounts(port, { "GET /after 200": 40 });
  });

  it.skipIf(!hasProgram("pgbench") || !hasProgram("initdb"))("counts statements of Postgres that are sent over TLS", async () => {
    const server = await startPostgres({ certificate: programs.path("cert.pem"), key: programs.path("key.pem") });
    try {
      await observe(["libssl.so.3"]);
      const environment = { ...process.env, PGSSLMODE: "require", PGHOST: "127.0.0.1", PGPORT: String(server.port), PGUSER: "postgres" };
      writeFileSync(programs.path("bench.sql"), "select 40 + 2;\n");
      const { status } = spawnSync("pgbench", ["-n", "-c", "4", "-t", "50", "-f", programs.path("bench.sql"), "postgres"], {
        env: environment,
      });
      expect(status).toBe(0);
      const seen = (role: TrafficRole): number =>
        observer
          .of(server.port, role)
          .reduce((sum, { route, count, isTls }) => sum + (isTls && /^select \? \+ \?/i.test(route) ? count : 0), 0);
      await waitFor("the statements", () => {
        observer.look(true);
        return seen("server") >= 200 && seen("client") >= 200;
      }).catch(() => undefined);
      expect([seen("server"), seen("client")]).toEqual([200, 200]);
    } finally {
      await server[Symbol.asyncDispose]();
    }
  });

  it.skipIf(libssl === undefined || !hasProgram("unshare"))("finds a library that exists only in a container", async () => {
    const inner = programs.path("inner");
    const script = `mkdir -p ${inner} && mount -t tmpfs none ${inner} && cp ${libssl} ${inner}/libssl.so.3 && exec python3 server.py PORT ${programs.directory}`;
    const { port } = await programs.serve("unshare", ["-m", "sh", "-c", script], { LD_LIBRARY_PATH: inner });
    expect(existsSync(`${inner}/libssl.so.3`)).toBe(false);
    await observe([nodeName]);
    await waitFor("the library", () => {
      observer.look();
      return observer.tls().some(({ path, problem }) => path === `${inner}/libssl.so.3` && problem === null);
    });
    const client = node(port);
    await client.request("/contained", 10);
    await expectCounts(port, { "GET /contained 200": 10 });
  });

  it.skipIf(libssl === undefined)("does not attach to excluded programs", async () => {
    copyFileSync(process.execPath, programs.path("private-node"));
    const secret = await programs.serve(programs.path("private-node"), ["server.mjs", "PORT", programs.directory, "http1"]);
    const open = await programs.serve("python3", ["server.py", "PORT", programs.directory]);
    const [first, second] = [python(secret.port), python(open.port)];
    await waitFor("the clients to have loaded their library", () =>
      [first, second].every(({ pid }) => readFileSync(`/proc/${pid}/maps`, "utf8").includes("libssl")),
    );
    await observe(["libssl.so.3"], { excludedExecutables: ["private-node"] });
    await first.request("/secret", 10);
    await second.request("/open", 10);
    await expectCounts(open.port, { "GET /open 200": 10 });
    await expectCounts(secret.port, { "GET /secret 200": 10 }, ["client"]);
    expect(observer.tls().find(({ path }) => path.endsWith("private-node"))?.problem).toBe("switched off by config");
  });
});
