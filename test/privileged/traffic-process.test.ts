import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { Agent, createServer, get, type Server } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { getPriority } from "node:os";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createBackoff } from "../../src/base/backoff.ts";
import { createLogger, silentLogger } from "../../src/base/log.ts";
import {
  type RequestGroup,
  type SuperviseTrafficOptions,
  superviseTraffic,
  type TrafficReport,
  type TrafficSettings,
  type TrafficSupervisor,
} from "../../src/traffic/index.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { seededBytes, seededRandom } from "../support/seeded-random.ts";
import { isLoaded, programsOf } from "../support/traffic-watch.ts";
import { waitFor } from "../support/wait-for.ts";

const dist = fileURLToPath(new URL("../../dist/", import.meta.url));
const childPath = `${dist}traffic-process.js`;

const settings: TrafficSettings = {
  windowMs: 1_000,
  maxRequestKinds: 512,
  maxConnections: 4096,
  maxRoutesPerService: 100,
  ringBytes: 1 << 20,
  tls: { isEnabled: false, excludedExecutables: [] },
  // No CPU limit: load of the shared machine must not change the results.
  cpuBudget: 1,
};

/** Also true for a zombie. */
function hasEnded(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return true;
  }
}

/** Sends requests, four at a time. */
async function ask(port: number, count: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const one = (index: number): Promise<void> =>
    new Promise((resolve, reject) => {
      get({ port, agent, path: `/users/${1000 + index}/orders?secret=1` }, (response) => response.resume().once("end", resolve)).once(
        "error",
        reject,
      );
    });
  await Promise.all(Array.from({ length: count }, (_, index) => one(index)));
  agent.destroy();
}

const beginnings = [
  "GET /users/1 HTTP/1.1\r\nHost: a\r\n",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u0004\0\0\0\0\0",
  "*3\r\n$3\r\nSET\r\n$999999999\r\n",
  "\0\0\0\u0008\u0004\u00d2\u0016\u002f",
  "\0\u0003\0\0",
  "Q\0\0\u00ff\u00ffSELECT 1",
  "J\0\0\0\n8.0.32\0",
  "\u0003\0\0\0\u0003SEL",
  "\u0016\u0003\u0001\u0002\0\u0001\0\u0001\u00fc\u0003\u0003",
  "get key\r\nVALUE key 0 -1\r\n",
  "\u0080\0\0\u00ff\u0010\0\0\0",
  "\u003e\0\0\0\u0001\0\0\0\0\0\0\0\u00dd\u0007\0\0",
  "\0\0\0\u001f\0\u0012\0\u0003\0\0\0\u0001",
];

/** Connections that start like a protocol and continue with random bytes, in both directions; some stay open until the end. */
async function talkGarbage(count: number): Promise<void> {
  const random = seededRandom(20_261_115);
  const below = (limit: number): number => Math.floor(random() * limit);
  const noise = (): Buffer => {
    const start = Buffer.from(beginnings[below(beginnings.length)] ?? "", "latin1").subarray(0, 1 + below(60));
    return Buffer.concat([start, seededBytes(random, below(3000))]);
  };
  const server = createTcpServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", () => socket.write(noise()));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const sockets: Socket[] = [];
  for (let index = 0; index < count; index++) {
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    sockets.push(socket);
    socket.on("error", () => undefined);
    for (let writes = below(4); writes >= 0; writes--) {
      socket.write(noise());
      await new Promise((resolve) => socket.once("data", resolve));
    }
    if (below(3) === 0) socket.resetAndDestroy();
  }
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
}

/** Sends memcached commands on four connections to a fake server, each after the response to the one before. */
async function storeInMemcached(perConnection: number): Promise<{ port: number; connections: number }> {
  const server = createTcpServer((socket) => socket.setNoDelay(true).on("data", () => socket.write("STORED\r\n")));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const connections = 4;
  const store = async (): Promise<void> => {
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    for (let sent = 0; sent < perConnection; sent++) {
      socket.write("set some-key 0 0 5\r\nvalue\r\n");
      await once(socket, "data");
    }
    socket.destroy();
  };
  await Promise.all(Array.from({ length: connections }, store));
  await new Promise((resolve) => server.close(resolve));
  return { port, connections };
}

interface Watched {
  supervisor: TrafficSupervisor;
  reports: TrafficReport[];
  ends: string[];
}

async function watch(more: Partial<SuperviseTrafficOptions> = {}): Promise<Watched> {
  const reports: TrafficReport[] = [];
  const ends: string[] = [];
  const supervisor = superviseTraffic({
    settings,
    ownPids: [],
    onReport: (report) => reports.push(report),
    onUnexpectedEnd: (reason) => ends.push(reason),
    log: silentLogger,
    childPath,
    backoff: createBackoff({ initialMs: 100, maxMs: 200 }),
    ...more,
  });
  await waitFor("the hooks", () => supervisor.status().state);
  return { supervisor, reports, ends };
}

function counted(reports: readonly TrafficReport[], of: (group: RequestGroup) => boolean): number {
  const groups = reports.flatMap((report) => (report.kind === "window" ? report.requests : []));
  return groups.filter(of).reduce((sum, { count }) => sum + count, 0);
}

function lossesOf(reports: readonly TrafficReport[]): unknown[] {
  return reports.flatMap((report) => (report.kind === "window" ? report.losses : [])).filter(({ loss }) => loss === "ring-full");
}

describe("the traffic process", () => {
  let server: Server;
  let port = 0;

  beforeAll(async () => {
    server = createServer((_request, response) => response.end("ok"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    port = (server.address() as AddressInfo).port;
  });
  afterAll(() => server.close());
  beforeEach((context) => {
    const reason = probesSkipReason("bpftool");
    context.skip(reason !== undefined, reason);
  });

  it("reports the requests of a server once at both ends, and ends when it is closed", async () => {
    const { supervisor, reports } = await watch();
    const { pid } = supervisor.status();
    expect(supervisor.status().state).toMatchObject({ hooks: "sockets", problem: null, step: 0 });
    const programs = programsOf(pid ?? 0);
    expect(programs.length).toBeGreaterThan(3);
    expect(programs.every(isLoaded)).toBe(true);
    await ask(port, 300);
    const isOurs = (group: RequestGroup): boolean => group.pid === process.pid && group.serverPort === port;
    await waitFor("600 requests", () => counted(reports, isOurs) >= 600, { details: () => JSON.stringify(reports.slice(-3), printable) });
    expect(counted(reports, (group) => isOurs(group) && group.role === "server")).toBe(300);
    expect(counted(reports, (group) => isOurs(group) && group.role === "client")).toBe(300);
    expect(counted(reports, (group) => isOurs(group) && group.route === "/users/{id}/orders" && group.status === "200")).toBe(600);
    expect(JSON.stringify(reports, printable)).not.toContain("secret");
    await supervisor[Symbol.asyncDispose]();
    expect(existsSync(`/proc/${pid}`)).toBe(false);
    await waitFor("the end of its programs", () => !programs.some(isLoaded));
  });

  it.skipIf(!existsSync("/usr/bin/curl"))("names processes that have exited by their program, for all decoders", async () => {
    const { supervisor, reports } = await watch();
    await using _closing = supervisor;
    const http2 = createHttp2Server((_request, response) => response.end("ok"));
    await new Promise<void>((resolve) => http2.listen(0, "127.0.0.1", resolve));
    const ports = [port, (http2.address() as AddressInfo).port];
    const curls = ports.map((at, index) =>
      spawn("/usr/bin/curl", ["-s", ...(index === 1 ? ["--http2-prior-knowledge"] : []), `http://127.0.0.1:${at}/short`]),
    );
    await Promise.all(curls.map((curl) => once(curl, "exit")));
    http2.close();
    const asked = (at: number): RequestGroup[] =>
      reports
        .flatMap((report) => (report.kind === "window" ? report.requests : []))
        .filter(({ serverPort, role }) => serverPort === at && role === "client");
    await waitFor("both requests", () => ports.every((at) => asked(at).length > 0));
    expect(ports.flatMap(asked).map(({ pid, protocol, processName }) => ({ pid, protocol, processName }))).toEqual([
      { pid: curls[0]?.pid, protocol: "http", processName: "curl" },
      { pid: curls[1]?.pid, protocol: "http2", processName: "curl" },
    ]);
  });

  it("wakes up when the ring fills between two ticks, and reports losses on a busy host", async () => {
    // Ticks are half a second apart; without a wake-up the ring would be full after a sixth of that.
    const { supervisor, reports } = await watch({ settings: { ...settings, windowMs: 4_000, ringBytes: 256 * 1024 } });
    await using _closing = supervisor;
    const { port: at, connections } = await storeInMemcached(5_000);
    const isOurs = (group: RequestGroup): boolean => group.serverPort === at && group.protocol === "memcached";
    const expected = 5_000 * connections * 2;
    const windowCount = (): number => reports.filter(({ kind }) => kind === "window").length;
    const sent = windowCount();
    // The window that was open when the last command ended, and one more for late records.
    await waitFor(
      "all commands at both ends, or the windows they belong to",
      () => counted(reports, isOurs) >= expected || windowCount() >= sent + 3,
    );
    const missing = expected - counted(reports, isOurs);
    expect(missing).toBeGreaterThanOrEqual(0);
    if (missing === 0) return;
    expect(lossesOf(reports)).not.toEqual([]);
    expect(missing).toBeLessThan(expected / 2);
  });

  it("has scheduling priority, so that the ring is drained on a busy host", async () => {
    const { supervisor } = await watch();
    await using _closing = supervisor;
    const pid = supervisor.status().pid ?? 0;
    await waitFor("its priority", () => getPriority(pid) === getPriority() - 10);
  });

  it("does not observe processes of Coral", async () => {
    const { supervisor, reports } = await watch({ ownPids: [process.pid] });
    await using _closing = supervisor;
    await ask(port, 50);
    await waitFor("two windows", () => reports.filter(({ kind }) => kind === "window").length >= 2);
    expect(counted(reports, ({ pid }) => pid === process.pid)).toBe(0);
  });

  it("skips disabled protocols without reporting losses", async () => {
    const { supervisor, reports } = await watch({ settings: { ...settings, disabledProtocols: ["http"] } });
    await using _closing = supervisor;
    const isServed = (group: RequestGroup): boolean => group.serverPort === port && group.role === "server";
    await ask(port, 50);
    await waitFor("a window", () => reports.some(({ kind }) => kind === "window"));
    supervisor.changeSettings(settings);
    let asked = 0;
    await waitFor("requests of later connections", async () => {
      await ask(port, 5);
      asked += 5;
      return counted(reports, isServed) > 0;
    });
    await waitFor("the last of them", () => counted(reports, isServed) >= 5);
    expect(counted(reports, isServed)).toBeLessThanOrEqual(asked);
    expect(reports.flatMap((report) => (report.kind === "window" ? report.losses : []))).not.toContainEqual(
      expect.objectContaining({ loss: "sampled-out" }),
    );
  });

  it("survives two hundred connections that violate every protocol", async () => {
    const problems: string[] = [];
    const log = createLogger("test", "error", ({ message }) => problems.push(message));
    const { supervisor, reports, ends } = await watch({ log });
    await using _closing = supervisor;
    const { pid } = supervisor.status();
    await talkGarbage(200);
    await ask(port, 20);
    const isServed = (group: RequestGroup): boolean => group.serverPort === port && group.role === "server";
    await waitFor("requests", () => counted(reports, isServed) >= 20);
    expect(counted(reports, isServed)).toBe(20);
    expect(ends).toEqual([]);
    // No decoder threw.
    expect(problems).toEqual([]);
    expect(supervisor.status().pid).toBe(pid);
  });

  it("is restarted after a kill, and the unobserved time is reported", async () => {
    const { supervisor, reports, ends } = await watch();
    await using _closing = supervisor;
    const first = supervisor.status().pid ?? 0;
    process.kill(first, "SIGKILL");
    await waitFor("another process", () => {
      const { pid, state } = supervisor.status();
      return pid !== null && pid !== first && state?.hooks === "sockets" && reports.filter(({ kind }) => kind === "state").length >= 2;
    });
    expect(ends).toEqual(["SIGKILL"]);
    const losses = reports.flatMap((report) => (report.kind === "window" ? report.losses : []));
    expect(losses.find(({ loss }) => loss === "away-seconds")?.count).toBeGreaterThanOrEqual(1);
    await ask(port, 20);
    await waitFor("requests", () => counted(reports, ({ serverPort }) => serverPort === port) >= 40);
  });

  it("leaves no BPF program behind when its agent is killed", async () => {
    const script = `import { spawn } from "node:child_process";
      const child = spawn(process.execPath, [${JSON.stringify(childPath)}], { stdio: ["ignore", "ignore", "inherit", "ipc"], serialization: "advanced" });
      child.on("message", (report) => { if (report.kind === "state") console.log(JSON.stringify({ pid: child.pid, hooks: report.hooks })); });
      child.send({ kind: "settings", ownPids: [], settings: ${JSON.stringify(settings)} });`;
    const agent = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    agent.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    const { pid, hooks } = JSON.parse(await waitFor("the hooks", () => /^.*\n/.exec(output)?.[0])) as { pid: number; hooks: string };
    expect(hooks).toBe("sockets");
    const programs = programsOf(pid);
    expect(programs.length).toBeGreaterThan(3);
    agent.kill("SIGKILL");
    await waitFor("the end of the process", () => hasEnded(pid));
    await waitFor("the end of the programs", () => !programs.some(isLoaded));
  });

  it("degrades until nothing is attached with a CPU budget of zero, and recovers when the budget is raised", async () => {
    const { supervisor, reports } = await watch({ settings: { ...settings, windowMs: 300, cpuBudget: 1e-6 } });
    await using _closing = supervisor;
    const isServed = (group: RequestGroup): boolean => group.serverPort === port && group.role === "server";
    await waitFor("the last step", async () => {
      await ask(port, 50);
      return supervisor.status().state?.step === 4;
    });
    const before = counted(reports, isServed);
    await waitFor("a pause", async () => {
      const known = counted(reports, isServed);
      await ask(port, 20);
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      return counted(reports, isServed) === known;
    });
    expect(before).toBeGreaterThan(0);
    supervisor.changeSettings({ ...settings, windowMs: 300, cpuBudget: 1 });
    await waitFor("full detail", () => supervisor.status().state?.step === 0);
    const paused = counted(reports, isServed);
    await ask(port, 30);
    await waitFor("requests again", () => counted(reports, isServed) >= paused + 30);
  });

  it("reports missing capabilities to an unprivileged user", async () => {
    const state = await stateAs([]);
    expect(state).toMatchObject({ hooks: "off" });
    expect(state.problem).toContain("lacks CAP_BPF and CAP_PERFMON");
    expect(state.problem).toContain("AmbientCapabilities=CAP_BPF CAP_PERFMON");
  });

  it("works without root, with CAP_BPF and CAP_PERFMON", async () => {
    expect(await stateAs(["--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon"])).toMatchObject({ hooks: "sockets", problem: null });
  });
});

/** The first reported state of a traffic process that runs as nobody with these capabilities. */
async function stateAs(privileges: readonly string[]): Promise<{ hooks: string; problem: string | null }> {
  const args = ["--reuid=65534", "--regid=65534", "--clear-groups", ...privileges, process.execPath, childPath];
  const child = spawn("setpriv", args, { stdio: ["ignore", "ignore", "inherit", "ipc"], serialization: "advanced" });
  try {
    const state = new Promise<{ hooks: string; problem: string | null }>((resolve, reject) => {
      child.on("message", (report: TrafficReport) => {
        if (report.kind === "state") resolve(report);
      });
      child.once("exit", (code) => reject(new Error(`ended with exit code ${code}`)));
    });
    child.send({ kind: "settings", ownPids: [], settings });
    return await state;
  } finally {
    child.kill("SIGKILL");
  }
}

function printable(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
