/** HTTPS as the probes in TLS libraries see it, against what the clients know they asked. */

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type SeenRequests, TlsObserver } from "../support/tls-observer.ts";
import { type TlsClient, TlsPrograms } from "../support/tls-programs.ts";
import { waitFor } from "../support/wait-for.ts";

const has = (command: string): boolean => spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;
const libssl = ["/usr/lib/x86_64-linux-gnu/libssl.so.3", "/usr/lib64/libssl.so.3"].find((path) => existsSync(path));

function missing(): string | undefined {
  if (process.getuid?.() !== 0) return "needs root";
  if (process.arch !== "x64") return "needs x86-64";
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0"}`);
  if (((capabilities >> 39n) & 1n) === 0n) return "root lacks CAP_BPF here";
  return has("openssl") ? undefined : "needs openssl";
}

let programs: TlsPrograms;
let observer: TlsObserver | undefined;

async function observe(...args: Parameters<typeof TlsObserver.open>): Promise<TlsObserver> {
  observer = await TlsObserver.open(...args);
  return observer;
}

/** What was seen of a port: "role status target" to count. Fails on any plain request: then TLS was taken for something else. */
function counts(seen: SeenRequests[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const { role, status, target, count, isTls } of seen) {
    const name = `${isTls ? "" : "PLAIN "}${role} ${status} ${target ?? "?"}`;
    found[name] = (found[name] ?? 0) + count;
  }
  return found;
}

/** Waits until the counts are what they should be, and some time more for what should not be there. */
async function expectCounts(port: number, expected: Record<string, number>): Promise<void> {
  const look = (): Record<string, number> => counts(observer?.requests(port) ?? []);
  await waitFor("the counts", () => JSON.stringify(Object.entries(look()).sort()) === JSON.stringify(Object.entries(expected).sort()), {
    timeoutMs: 5_000,
  }).catch(() => undefined);
  expect(look()).toEqual(expected);
}

function pidsOf(port: number, role: "server" | "client"): number[] {
  return [...new Set((observer?.requests(port) ?? []).filter((one) => one.role === role).map(({ pid }) => pid))];
}

describe.skipIf(missing() !== undefined)(`HTTPS by probes in libraries${missing() === undefined ? "" : ` (${missing()})`}`, () => {
  beforeEach(() => {
    programs = new TlsPrograms();
  });
  afterEach(async () => {
    programs[Symbol.dispose]();
    await observer?.[Symbol.asyncDispose]();
    observer = undefined;
  });

  const python = (port: number): TlsClient => programs.client("python3", ["client.py", String(port)]);
  const node = (port: number, kind = "http1"): TlsClient => programs.client(process.execPath, ["client.mjs", String(port), kind]);

  it.skipIf(!has("nginx") || !has("curl"))("counts nginx and its clients curl, Python and Node, each once", async () => {
    const { port } = await programs.serve("nginx", ["-c", programs.path("nginx.conf")]);
    await observe();
    const url = `https://127.0.0.1:${port}`;
    expect(
      spawnSync("curl", [
        "-sk",
        "--http1.1",
        `${url}/from-curl`,
        `${url}/from-curl`,
        `${url}/missing`,
        "-o",
        "/dev/null",
        "-o",
        "/dev/null",
        "-o",
        "/dev/null",
      ]).status,
    ).toBe(0);
    const [first, second] = [python(port), node(port)];
    await first.ask("/from-python", 50);
    await second.ask("/from-node", 50);
    await expectCounts(port, {
      "server 200 /from-curl": 2,
      "client 200 /from-curl": 2,
      "server 404 /missing": 1,
      "client 404 /missing": 1,
      "server 200 /from-python": 50,
      "client 200 /from-python": 50,
      "server 200 /from-node": 50,
      "client 200 /from-node": 50,
    });
    expect(pidsOf(port, "server")).toHaveLength(1);
    expect(pidsOf(port, "client")).toEqual(expect.arrayContaining([first.pid, second.pid]));
  });

  it("counts a server of Python, one thread for each connection", async () => {
    const { pid, port } = await programs.serve("python3", ["server.py", "PORT", programs.directory]);
    await observe();
    const clients = [python(port), python(port), node(port)];
    await Promise.all(clients.map((client, index) => client.ask(`/c${"abc"[index]}`, 30)));
    await expectCounts(port, {
      ...{ "server 200 /ca": 30, "server 200 /cb": 30, "server 200 /cc": 30 },
      ...{ "client 200 /ca": 30, "client 200 /cb": 30, "client 200 /cc": 30 },
    });
    expect(pidsOf(port, "server")).toEqual([pid]);
  });

  it("counts a server of Node with many connections at once", async () => {
    const { pid, port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http1"]);
    await observe();
    const clients = Array.from({ length: 6 }, (_, index) => (index % 2 === 0 ? python(port) : node(port)));
    await Promise.all(clients.map((client) => client.ask("/together", 40)));
    await clients[0]?.ask("/missing", 3);
    await expectCounts(port, {
      ...{ "server 200 /together": 240, "client 200 /together": 240 },
      ...{ "server 404 /missing": 3, "client 404 /missing": 3 },
    });
    expect(pidsOf(port, "server")).toEqual([pid]);
    expect(new Set(pidsOf(port, "client"))).toEqual(new Set(clients.map((client) => client.pid)));
  });

  it("sees HTTP/2 over TLS, with its paths", async () => {
    const { pid, port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http2"]);
    await observe();
    const client = node(port, "http2");
    await client.ask("/over/http2", 25);
    await client.ask("/missing", 2);
    const seen = (role: string, at: number, status: string): number =>
      (observer?.http2 ?? []).filter((one) => one.isTls && one.role === role && one.pid === at && one.status === status).length;
    await waitFor("the requests", () => seen("server", pid, "200") >= 25 && seen("client", client.pid, "404") >= 2, {
      timeoutMs: 5_000,
    }).catch(() => undefined);
    expect([
      seen("server", pid, "200"),
      seen("client", client.pid, "200"),
      seen("server", pid, "404"),
      seen("client", client.pid, "404"),
    ]).toEqual([25, 25, 2, 2]);
  });

  describe.skipIf(!has("go"))("of Go", () => {
    it.each([
      ["with symbols", []],
      ["stripped", ["-ldflags", "-s -w"]],
    ] as [string, string[]][])("counts server and client %s", async (_, options) => {
      const binary = programs.buildGo("program", ...options);
      const { pid, port } = await programs.serve(binary, ["server", "PORT", programs.directory]);
      await observe();
      const client = programs.client(binary, ["client", String(port)]);
      const other = python(port);
      await Promise.all([client.ask("/from-go", 60), other.ask("/from-python", 40)]);
      await other.ask("/missing", 2);
      await expectCounts(port, {
        ...{ "server 200 /from-go": 60, "client 200 /from-go": 60, "server 200 /from-python": 40, "client 200 /from-python": 40 },
        ...{ "server 404 /missing": 2, "client 404 /missing": 2 },
      });
      expect(pidsOf(port, "server")).toEqual([pid]);
    });
  });

  it("goes on with connections that are older than it", async () => {
    const { port } = await programs.serve(process.execPath, ["server.mjs", "PORT", programs.directory, "http1"]);
    const clients = [python(port), node(port)];
    await Promise.all(clients.map((client) => client.ask("/before", 5)));
    await observe();
    // A library that is given bytes in memory, as Node's is, tells its socket with what it receives: what an old connection sends first is not known.
    await clients[1]?.ask("/first", 1);
    await Promise.all(clients.map((client) => client.ask("/after", 20)));
    await expectCounts(port, { "server 200 /first": 1, "server 200 /after": 40, "client 200 /after": 40 });
  });

  it.skipIf(!has("go"))("notices a program that starts later, within seconds", async () => {
    await observe();
    const binary = programs.buildGo("later", "-ldflags", "-s -w");
    const { pid, port } = await programs.serve(binary, ["server", "PORT", programs.directory]);
    await waitFor("probes", () => observer?.probes.state().some(({ path, problem }) => path === binary && problem === null), {
      timeoutMs: 4_000,
    });
    const client = python(port);
    await client.ask("/late", 10);
    await expectCounts(port, { "server 200 /late": 10, "client 200 /late": 10 });
    expect(pidsOf(port, "server")).toEqual([pid]);
  });

  it.skipIf(libssl === undefined || !has("unshare"))("finds a library that only a container has", async () => {
    const inner = programs.path("inner");
    const script = `mkdir -p ${inner} && mount -t tmpfs none ${inner} && cp ${libssl} ${inner}/ && exec python3 server.py PORT ${programs.directory}`;
    const { port } = await programs.serve("unshare", ["-m", "sh", "-c", script], { LD_LIBRARY_PATH: inner });
    expect(existsSync(`${inner}/libssl.so.3`)).toBe(false);
    await observe();
    expect(observer?.probes.state()).toContainEqual({ path: `${inner}/libssl.so.3`, library: "openssl", processes: 1, problem: null });
    const client = python(port);
    await client.ask("/contained", 10);
    await expectCounts(port, { "server 200 /contained": 10, "client 200 /contained": 10 });
  });

  it.skipIf(libssl === undefined)("leaves excluded programs alone", async () => {
    copyFileSync(process.execPath, programs.path("private-node"));
    const secret = await programs.serve(programs.path("private-node"), ["server.mjs", "PORT", programs.directory, "http1"]);
    const open = await programs.serve("python3", ["server.py", "PORT", programs.directory]);
    await observe({ isEnabled: true, excludedExecutables: ["private-node"] });
    const [first, second] = [python(secret.port), python(open.port)];
    await waitFor("the clients to be known", async () => {
      await observer?.probes.refresh();
      return (observer?.probes.state() ?? []).some(({ path, processes }) => path.includes("libssl") && processes >= 3);
    });
    await first.ask("/secret", 10);
    await second.ask("/open", 10);
    await expectCounts(open.port, { "server 200 /open": 10, "client 200 /open": 10 });
    await expectCounts(secret.port, { "client 200 /secret": 10 });
  });
});
