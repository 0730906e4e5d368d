/** Load generators against real servers: no request is lost, no state leaks, and killed processes recover. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { AgentStatus, EventList, RedResult } from "../../src/tools/index.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { buildGo } from "../support/build-go.ts";
import { type AgentDaemon, type ColonyDaemon, DaemonProcess, startAgent, startColony } from "../support/daemon.ts";
import { startPostgres, startRedis } from "../support/database-servers.ts";
import { freePort } from "../support/held-port.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "../support/test-home.ts";
import { isLoaded, programsOf, TrafficWatch } from "../support/traffic-watch.ts";
import { waitFor } from "../support/wait-for.ts";
import { fastAgentConfig, fastColonyConfig } from "../support/watched-host.ts";

const run = promisify(execFile);
const mebibyte = 1024 ** 2;
const roles = ["server", "client"] as const;

const directory = mkdtempSync(join(tmpdir(), "coral-load-"));
const started: DaemonProcess[] = [];

function start(name: string, command: string, args: readonly string[]): DaemonProcess {
  const daemon = new DaemonProcess(
    name,
    spawn(command, args, { cwd: directory, env: cleanEnvironment("/nonexistent"), stdio: ["ignore", "pipe", "pipe"] }),
  );
  started.push(daemon);
  return daemon;
}

async function untilAnswers(port: number): Promise<void> {
  await waitFor(`port ${port} to answer`, async () => (await fetch(`http://127.0.0.1:${port}/warm`)).ok);
}

async function startNginx(): Promise<number> {
  const port = await freePort();
  const config = `daemon off; master_process off; pid ${directory}/pid; error_log stderr; events { worker_connections 4096; }
http { access_log off; keepalive_requests 100000000; ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${directory}/${name};`).join(" ")}
server { listen 127.0.0.1:${port} backlog=4096; location / { return 200 "hello\\n"; } } }`;
  writeFileSync(join(directory, "nginx.conf"), config);
  start("nginx", "nginx", ["-c", join(directory, "nginx.conf"), "-e", "stderr"]);
  await untilAnswers(port);
  return port;
}

/** The number of requests that wrk counted, without those in flight at its end. */
async function wrk(port: number, path: string, seconds: number, connections: number, ...more: string[]): Promise<number> {
  const { stdout } = await run("wrk", ["-t1", `-c${connections}`, `-d${seconds}s`, ...more, `http://127.0.0.1:${port}${path}`]);
  expect(stdout).not.toMatch(/Non-2xx/);
  return Number(/(\d+) requests in/.exec(stdout)?.[1]);
}

const total = (observer: RequestObserver, port: number, role: (typeof roles)[number], method?: string): number =>
  observer
    .of(port, role)
    .filter((group) => method === undefined || group.method === method)
    .reduce((sum, { count }) => sum + count, 0);

afterAll(async () => {
  for (const daemon of started) await daemon.stop(2_000);
  rmSync(directory, { recursive: true, force: true });
});

describe("load of other programs", () => {
  let nginxPort = 0;

  beforeAll(async () => {
    if (probesSkipReason("wrk", "nginx") === undefined) nginxPort = await startNginx();
  });

  it("counts the requests of 100,000 connections, and frees their state", async (context) => {
    const reason = probesSkipReason("wrk", "nginx");
    context.skip(reason !== undefined, reason);
    const maxConnections = 2_048;
    await using watch = await TrafficWatch.open({ maxConnections });
    await using observer = await RequestObserver.open({ settings: { maxConnections } });
    const { object } = observer.hooks;
    const entries = (): number => {
      let found = object.map("connections").readAll(() => {});
      // The socket address comes first; a slot without one is free.
      object.map("connection_slots").readAll((_keys, _keyAt, values, at) => {
        if (values.readBigUInt64LE(at) !== 0n) found++;
      });
      return found;
    };
    // Connections of other programs.
    const foreign = entries();
    await wrk(nginxPort, "/before", 1, 64, "-H", "Connection: close");
    const rssBefore = watch.rssBytes();
    let sent = 0;
    let rounds = 0;
    // A busy machine may open fewer connections in half a minute.
    for (const deadlineMs = performance.now() + 30_000; sent < 100_000 && performance.now() < deadlineMs; rounds++) {
      sent += await wrk(nginxPort, "/short", 3, 64, "-H", "Connection: close");
      observer.look();
      expect(entries()).toBeLessThanOrEqual(maxConnections);
    }
    const isShort = ({ serverPort, route }: { serverPort: number; route: string }): boolean =>
      serverPort === nginxPort && route === "/short";
    const seen = (role: (typeof roles)[number]): number => watch.count((group) => isShort(group) && group.role === role);
    await waitFor("all requests", () => roles.every((role) => seen(role) >= sent), {
      details: () => JSON.stringify({ sent, seen: roles.map(seen) }),
    });
    await watch.waitForWindows(2);
    for (const role of roles) {
      expect(seen(role)).toBeGreaterThanOrEqual(sent);
      expect(seen(role)).toBeLessThanOrEqual(sent + rounds * 64);
    }
    expect([watch.lost("connections-full"), watch.lost("ring-full")]).toEqual([0, 0]);
    expect([watch.ends, watch.problems]).toEqual([[], []]);
    expect(watch.rssBytes() - rssBefore).toBeLessThan(40 * mebibyte);
    await waitFor("the table to be empty again", () => entries() < foreign + 200, { details: () => String(entries()) });
  });

  it("names requests that two threads of a process send at the same moment", async (context) => {
    const reason = probesSkipReason();
    context.skip(reason !== undefined, reason);
    const rounds = 150;
    const script = fileURLToPath(new URL("../support/twin-threads.mjs", import.meta.url));
    await using observer = await RequestObserver.open();
    const twins = spawn(process.execPath, [script, String(rounds)], { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: twins.stdout });
    const port = Number((await once(lines, "line"))[0]);
    twins.stdin.write("go\n");
    expect((await once(lines, "line"))[0]).toBe("done");
    await observer.waitForCount(port, rounds * 2);
    for (const role of roles) {
      const counts = observer.counts(port, role);
      expect(Object.keys(counts)).toHaveLength(rounds);
      expect(new Set(Object.values(counts))).toEqual(new Set([2]));
    }
  });

  it("matches the counts of redis-benchmark and pgbench", async (context) => {
    const reason = probesSkipReason("redis-server", "redis-benchmark", "postgres", "pgbench");
    context.skip(reason !== undefined, reason);
    await using redis = await startRedis();
    await using postgres = await startPostgres();
    const connection = ["-h", "127.0.0.1", "-p", String(postgres.port), "-U", "postgres"];
    await run("pgbench", [...connection, "-i", "-q", "postgres"]);
    await using observer = await RequestObserver.open();
    const commands = 50_000;
    await run("redis-benchmark", ["-p", String(redis.port), "-q", "-n", String(commands), "-c", "50", "-t", "set,get"]);
    observer.look(true);
    for (const role of roles) for (const verb of ["SET", "GET"]) expect(total(observer, redis.port, role, verb)).toBe(commands);
    const { stdout } = await run("pgbench", [...connection, "-n", "-S", "-M", "prepared", "-c", "4", "-T", "2", "postgres"]);
    const transactions = Number(/transactions actually processed: (\d+)/.exec(stdout)?.[1]);
    expect(transactions).toBeGreaterThan(100);
    observer.look(true);
    // pgbench also sends a few administrative queries.
    const select = "SELECT SELECT abalance FROM pgbench_accounts WHERE aid = ?";
    for (const role of roles) expect(observer.counts(postgres.port, role)[select]).toBe(transactions);
    // A transaction with several statements, some of which write.
    const mixed = await run("pgbench", [...connection, "-n", "-c", "2", "-t", "150", "postgres"]);
    expect(mixed.stdout).toContain("300/300");
    observer.look(true);
    for (const role of roles) {
      expect(total(observer, postgres.port, role, "UPDATE")).toBe(900);
      expect(total(observer, postgres.port, role, "INSERT")).toBe(300);
      expect(observer.counts(postgres.port, role)[select]).toBe(transactions + 300);
    }
  });

  const python = `import http.server, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(404 if self.path.startswith("/missing") else 200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\\n")
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
`;
  const go = `package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/missing") {
			w.WriteHeader(404)
		}
		fmt.Fprintln(w, "hello")
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
`;

  it.for(["python3", "go"])("counts the responses of a %s server", async (language, context) => {
    const reason = probesSkipReason("wrk", language);
    context.skip(reason !== undefined, reason);
    const port = await freePort();
    if (language === "python3") {
      writeFileSync(join(directory, "server.py"), python);
      start("python", "python3", ["server.py", String(port)]);
    } else {
      mkdirSync(join(directory, "go"), { recursive: true });
      writeFileSync(join(directory, "go/main.go"), go);
      buildGo(join(directory, "go"), ["-o", "server", "main.go"]);
      start("go", join(directory, "go/server"), [String(port)]);
    }
    await untilAnswers(port);
    await using observer = await RequestObserver.open();
    const sent = await wrk(port, "/items/4711/parts", 1, 4);
    expect(sent).toBeGreaterThan(50);
    for (let count = 0; count < 7; count++) expect((await fetch(`http://127.0.0.1:${port}/missing/x`)).status).toBe(404);
    await observer.waitForCount(port, sent + 7, ["server"]);
    const counts = observer.counts(port, "server");
    expect(counts["GET /missing/x 404"]).toBe(7);
    const more = (counts["GET /items/{id}/parts 200"] ?? 0) + (counts["GET /items/{id}/parts no-reply"] ?? 0) - sent;
    expect(more).toBeGreaterThanOrEqual(0);
    expect(more).toBeLessThanOrEqual(4);
  });
});

describe("kills under load", () => {
  let home: TestHome;
  let colony: ColonyDaemon;
  let agent: AgentDaemon;
  let port = 0;
  const agentConfig = `${fastAgentConfig}\ntraffic:\n  interval: 1s\n  cpu_budget: 50%\n`;

  const server = `const { createServer } = require("node:http");
createServer((request, response) => response.end("ok")).listen(Number(process.argv[1]), "127.0.0.1");`;

  const traffic = async (): Promise<NonNullable<AgentStatus["traffic"]>> => {
    const found = ((await agent.status()) as unknown as AgentStatus).traffic;
    if (!found) throw new Error("the agent reports no traffic status");
    return found;
  };
  const untilWatching = async (): Promise<number> => {
    await waitFor("hooks to be attached", async () => (await traffic()).state === "on", {
      details: () => agent.lastLines(),
    });
    return (await traffic()).pid ?? 0;
  };
  /** Requests stored at the colony so far. */
  const stored = async (route: string, where = "TRUE"): Promise<number> => {
    const [row] = await colony.sql(
      `SELECT coalesce(sum(requests), 0)::DOUBLE AS n FROM red WHERE server_port = ${port} AND role = 'server' AND route = '${route}' AND ${where}`,
    );
    return Number(row?.["n"]);
  };

  beforeAll(async () => {
    if (probesSkipReason("wrk", "bpftool") !== undefined) return;
    home = makeTestHome();
    colony = await startColony({ home: home.path, config: fastColonyConfig });
    agent = await startAgent({ home: home.path, config: agentConfig, traffic: true });
    await agent.waitUntilConnected();
    port = await freePort();
  });

  afterAll(async () => {
    for (const daemon of [agent, colony]) await daemon?.stop();
    await home?.[Symbol.asyncDispose]();
  });

  beforeEach((context) => {
    const reason = probesSkipReason("wrk", "bpftool");
    context.skip(reason !== undefined, reason);
  });

  it("recovers after kill -9 of the traffic process, and reports the unobserved time", async () => {
    start("service", process.execPath, ["-e", server, String(port)]);
    await untilAnswers(port);
    const first = await untilWatching();
    const programs = programsOf(first);
    expect(programs.length).toBeGreaterThan(3);
    const load = wrk(port, "/killed", 6, 8);
    await waitFor("requests", async () => (await stored("/killed")) > 0, { intervalMs: 200 });
    process.kill(first, "SIGKILL");
    await waitFor("the end of its programs", () => !programs.some(isLoaded));
    await waitFor("another process", async () => ![first, null].includes((await traffic()).pid));
    await untilWatching();
    const sent = await load;
    const again = await wrk(port, "/after", 1, 8);
    let seen = 0;
    await waitFor("all of the second load", async () => (seen = await stored("/after")) >= again, {
      intervalMs: 300,
      details: () => `${seen} of ${again}`,
    });
    expect(await stored("/after")).toBeLessThanOrEqual(again + 8);
    // Unobserved requests are missing, and none is counted twice.
    expect(await stored("/killed")).toBeLessThanOrEqual(sent + 8);
    const [unobserved] = await colony.sql("SELECT sum(count)::DOUBLE AS n FROM traffic_loss WHERE loss = 'away-seconds'");
    expect(unobserved?.["n"]).toBeGreaterThanOrEqual(1);
    const { completeness } = await colony.tool<RedResult & { completeness: unknown }>("coral_query_red", { since: "10m" });
    expect(JSON.stringify(completeness)).toContain("the traffic process was not running");
    const { events } = await colony.tool<EventList>("coral_list_events", { kind: "traffic-process-restarted" });
    expect(events.length).toBeGreaterThanOrEqual(1);
  });

  it("counts every response of a service that is killed -9 under load, and of its successor", async () => {
    const victim = started.at(-1);
    const load = run("wrk", ["-t1", "-c8", "-d4s", `http://127.0.0.1:${port}/victim`]);
    await waitFor("requests", async () => (await stored("/victim")) > 0, { intervalMs: 200 });
    await victim?.kill("SIGKILL");
    start("successor", process.execPath, ["-e", server, String(port)]);
    await untilAnswers(port);
    const successor = wrk(port, "/successor", 1, 8);
    const sent = Number(/(\d+) requests in/.exec((await load).stdout)?.[1]);
    const more = await successor;
    await waitFor("all of both loads", async () => (await stored("/victim")) >= sent && (await stored("/successor")) >= more, {
      intervalMs: 300,
      details: () => JSON.stringify({ sent, more }),
    });
    // Requests are in flight twice: when the first server ended, and when wrk did.
    expect(await stored("/victim")).toBeLessThanOrEqual(sent + 16);
    expect(await stored("/successor")).toBeLessThanOrEqual(more + 8);
    expect((await traffic()).state).toBe("on");
  });

  it("leaves nothing in the kernel after kill -9 of the agent, and works after a restart", async () => {
    const pid = await untilWatching();
    const programs = programsOf(pid);
    const load = wrk(port, "/orphaned", 3, 8);
    await waitFor("requests", async () => (await stored("/orphaned")) > 0, { intervalMs: 200 });
    await agent.kill("SIGKILL");
    await waitFor("the end of its programs", () => !programs.some(isLoaded));
    const before = await stored("/orphaned");
    const sent = await load;
    expect(before).toBeLessThan(sent + 8);
    agent = await startAgent({ home: home.path, config: agentConfig, traffic: true });
    await agent.waitUntilConnected();
    await untilWatching();
    const again = await wrk(port, "/reborn", 1, 8);
    await waitFor("all of the load since", async () => (await stored("/reborn")) >= again, { intervalMs: 300 });
    expect(await stored("/reborn")).toBeLessThanOrEqual(again + 8);
  });
});
