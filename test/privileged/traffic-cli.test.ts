/** Requests of real servers, from the BPF programs to the output of commands. */

import { execFile, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { AgentStatus, CapturedRequest, EventList, RedResult, Topology, TopResult } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, DaemonProcess, startAgent, startColony } from "../support/daemon.ts";
import { hasProgram } from "../support/has-program.ts";
import { freePort } from "../support/held-port.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";
import { fastAgentConfig, fastColonyConfig } from "../support/watched-host.ts";

const run = promisify(execFile);
const skipReason =
  process.getuid?.() !== 0
    ? "needs root"
    : !hasProgram("nginx")
      ? "needs nginx"
      : !hasProgram("wrk") || !hasProgram("curl") || !hasProgram("openssl")
        ? "needs wrk, curl and openssl"
        : undefined;

const agentConfig = `${fastAgentConfig}\ntraffic:\n  interval: 1s\n  cpu_budget: 50%\n`;
const service = "storefront";
let home: TestHome;
let colony: ColonyDaemon;
let agent: AgentDaemon;
let nginx: DaemonProcess;
let port: number;
let tlsPort: number;

/** nginx that responds by path; `/fail` always fails. */
function nginxConfig(directory: string): string {
  return `
    daemon off;
    worker_processes 2;
    error_log stderr;
    pid ${directory}/nginx.pid;
    events { worker_connections 1024; }
    http {
      access_log off;
      keepalive_requests 1000000;
      ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${directory}/${name};`).join("\n")}
      server {
        listen 127.0.0.1:${port} reuseport;
        location / { return 200 "hello\\n"; }
        location /fail { return 503 "no\\n"; }
      }
      server {
        listen 127.0.0.1:${tlsPort} ssl;
        ssl_certificate ${directory}/cert.pem;
        ssl_certificate_key ${directory}/key.pem;
        location / { return 200 "hidden\\n"; }
      }
    }`;
}

async function trafficStatus(): Promise<NonNullable<AgentStatus["traffic"]>> {
  const { traffic } = (await agent.status()) as unknown as AgentStatus;
  if (!traffic) throw new Error("the agent reports no traffic status");
  return traffic;
}

beforeAll(async () => {
  if (skipReason !== undefined) return;
  home = makeTestHome();
  colony = await startColony({ home: home.path, config: fastColonyConfig });
  agent = await startAgent({ home: home.path, config: agentConfig, traffic: true });
  await agent.waitUntilConnected();
  const directory = join(home.path, "nginx");
  mkdirSync(directory);
  port = await freePort();
  tlsPort = await freePort();
  const files = ["-keyout", join(directory, "key.pem"), "-out", join(directory, "cert.pem")];
  await run("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost", ...files]);
  writeFileSync(join(directory, "nginx.conf"), nginxConfig(directory));
  nginx = new DaemonProcess("nginx", spawn("nginx", ["-c", join(directory, "nginx.conf"), "-p", directory, "-e", "stderr"]));
  await waitFor("nginx to answer", async () => (await ask("/")) === 200);
  const { code, stderr } = await runCoral(["connect", `${service}:${port}`, `vault:${tlsPort}`], { home: home.path });
  if (code !== 0) throw new Error(stderr);
  await waitFor("hooks to be attached", async () => (await trafficStatus()).state === "on", {
    details: () => agent.lastLines(),
  });
  await waitFor("the service to be known", async () => (await services()).includes(service));
});

beforeEach((context) => {
  context.skip(skipReason !== undefined, skipReason);
});

afterAll(async () => {
  for (const daemon of [nginx, agent, colony]) await daemon?.stop();
  await home?.[Symbol.asyncDispose]();
});

async function services(): Promise<string[]> {
  const { services: all } = await colony.tool<{ services: { service: string }[] }>("coral_list_services", { limit: 10_000 });
  return all.map((one) => one.service);
}

const kept = new Agent({ keepAlive: true, maxSockets: 4 });

/** Sends a request and returns its status. */
function ask(path: string, headers: Record<string, string> = {}, method = "GET", body?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: "127.0.0.1", port, path, headers, method, agent: kept }, (reply) => {
      reply.resume();
      reply.once("end", () => resolve(reply.statusCode ?? 0));
    });
    outgoing.once("error", reject).end(body);
  });
}

async function red(input: Record<string, unknown>): Promise<RedResult> {
  return colony.tool<RedResult>("coral_query_red", { service, since: "10m", points: 0, limit: 1_000, ...input });
}

const serverCount = ({ rows }: RedResult): number => rows.reduce((sum, row) => sum + row.requests, 0);

/** Waits until the rows of this test's own route add up to the sent requests, and returns them. */
async function waitForCount(route: string, wanted: number, by = "route"): Promise<RedResult> {
  let seen: RedResult | undefined;
  return waitFor(
    `${wanted} requests of ${route}`,
    async () => {
      seen = await red({ route, role: "server", by });
      return serverCount(seen) >= wanted && seen;
    },
    { intervalMs: 300, details: () => JSON.stringify(seen, undefined, 1) },
  );
}

describe("coral query red", () => {
  it("counts every request of a real nginx, by route and status, with errors", async () => {
    await Promise.all(Array.from({ length: 240 }, (_, index) => ask(`/orders/${1_000 + index}/items`)));
    for (let count = 0; count < 60; count++) await ask("/fail/orders");
    const routes = await waitForCount("orders", 300);
    expect(Object.fromEntries(routes.rows.map((row) => [`${row.method} ${row.route}`, [row.requests, row.errors, row.protocol]]))).toEqual({
      "GET /orders/{id}/items": [240, 0, "http"],
      "GET /fail/orders": [60, 60, "http"],
    });
    const statuses = await waitForCount("orders", 300, "status");
    expect(Object.fromEntries(statuses.rows.map((row) => [row.status, row.requests]))).toEqual({ 200: 240, 503: 60 });
    const [row] = routes.rows;
    expect(row?.p50Us).toBeGreaterThan(0);
    expect(row?.p95Us).toBeGreaterThanOrEqual(row?.p50Us ?? Number.POSITIVE_INFINITY);
    // Checks the unit: no request takes a minute.
    expect(row?.p99Us).toBeLessThan(60_000_000);
    expect(row?.requestBytes).toBeGreaterThan(240 * 40);
    expect(routes.findings).toMatchObject([{ rule: "error-share", severity: "critical", subject: "GET /fail/orders" }]);
    const { code, stdout } = await runCoral(["query", "red", service, "--route", "orders", "--role", "server"], { home: home.path });
    expect(code).toBe(0);
    expect(stdout).toMatch(/GET \/orders\/\{id\}\/items\s+server\s+http\s+\S+\s+0%/);
    expect(stdout).toMatch(/GET \/fail\/orders\s+server\s+http\s+\S+\s+100%/);
  });

  it("matches the count of wrk, except for requests in flight", async () => {
    const connections = 8;
    const { stdout } = await run("wrk", ["-t1", `-c${connections}`, "-d2s", `http://127.0.0.1:${port}/bulk`]);
    const sent = Number(/(\d+) requests in/.exec(stdout)?.[1]);
    expect(sent).toBeGreaterThan(100);
    const seen = serverCount(await waitForCount("/bulk", sent));
    expect(seen - sent).toBeGreaterThanOrEqual(0);
    expect(seen - sent).toBeLessThanOrEqual(connections);
    const asked = await waitFor("the client's side", async () => {
      const found = await colony.tool<RedResult>("coral_query_red", { service: "wrk", route: "/bulk", role: "client", since: "10m" });
      return found.rows[0] && found;
    });
    expect(Math.abs(serverCount(asked) - sent)).toBeLessThanOrEqual(connections);
  });

  it("names short-lived clients by their program", async () => {
    for (let count = 0; count < 10; count++) await run("curl", ["-s", "-o", "/dev/null", `http://127.0.0.1:${port}/short`]);
    const rows = await waitFor("the client's side", async () => {
      const found = await colony.sql(
        "SELECT service, sum(requests) AS n FROM red WHERE role = 'client' AND route = '/short' GROUP BY service",
      );
      return found.reduce((sum, row) => sum + Number(row["n"]), 0) >= 10 && found;
    });
    expect(rows).toEqual([{ service: "curl", n: 10 }]);
  });

  it("counts requests inside TLS, at the server and at curl", async () => {
    const url = `https://127.0.0.1:${tlsPort}/secrets/77`;
    await waitFor(
      "the plaintext to be read",
      async () => {
        await run("curl", ["-sk", "-o", "/dev/null", `https://127.0.0.1:${tlsPort}/warm`]);
        const found = await colony.tool<RedResult>("coral_query_red", { service: "vault", route: "/warm", since: "10m" });
        return found.rows.length > 0;
      },
      { intervalMs: 500 },
    );
    await run("curl", ["-sk", ...Array.from({ length: 20 }, () => ["-o", "/dev/null", url]).flat()]);
    const found = await waitFor(
      "20 requests",
      async () => {
        const seen = await colony.tool<RedResult>("coral_query_red", { service: "vault", route: "/secrets", role: "server", since: "10m" });
        return serverCount(seen) >= 20 && seen;
      },
      { intervalMs: 300 },
    );
    expect(found.rows).toMatchObject([{ method: "GET", route: "/secrets/{id}", protocol: "http", isTls: true, requests: 20, errors: 0 }]);
    const { stdout } = await runCoral(["query", "red", "vault", "--route", "/secrets", "--role", "server"], { home: home.path });
    expect(stdout).toMatch(/GET \/secrets\/\{id\}\s+server\s+https/);
  });

  it("adds requests to the topology edge, once", async () => {
    const edge = await waitFor(
      "requests on an edge to the service",
      async () => {
        const { edges } = await colony.tool<Topology>("coral_get_topology", { service, since: "10m" });
        return edges.find(({ to, requests }) => to === `service:${service}` && requests !== null);
      },
      { intervalMs: 500 },
    );
    expect(edge.requests?.protocol).toBe("http");
    expect(edge.evidence).toContain("requests");
  });
});

describe("coral top", () => {
  it("prints the service once, with its rate and processes", async () => {
    await Promise.all(Array.from({ length: 100 }, () => ask("/top")));
    await waitForCount("/top", 100);
    const top = await coralJson<TopResult>(["top", "--once", "--since", "5m", "--limit", "1000"], { home: home.path });
    const row = top.rows.find((one) => one.service === service);
    expect(row).toMatchObject({ role: "server", protocols: ["http"] });
    expect(row?.perSecond).toBeGreaterThan(0);
    const { stdout } = await runCoral(["top"], { home: home.path });
    expect(stdout).toContain(service);
    expect(stdout).not.toContain("\u001b[");
  });
});

describe("coral capture", () => {
  const secret = "hunter2-s3cr3t-0123456789abcdef";

  function startCapture(args: readonly string[]): DaemonProcess {
    const child = spawn(process.execPath, [coralFile, "capture", service, ...args], {
      env: cleanEnvironment(home.path),
      stdio: ["ignore", "pipe", "pipe"],
    });
    return new DaemonProcess("coral capture", child);
  }

  /** Sends requests while the capture is being set up; the first captured one may be any of them. */
  async function askUntil(ended: () => boolean, send: () => Promise<unknown>): Promise<void> {
    await waitFor(
      "the capture to end",
      async () => {
        await send();
        return ended();
      },
      { intervalMs: 50 },
    );
  }

  const requestsIn = (output: string): CapturedRequest[] =>
    output.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as CapturedRequest] : []));

  it("prints live requests, redacted, and ends at its limit", async () => {
    await using capture = startCapture(["--limit", "3", "--route", "/pay", "-o", "json"]);
    await capture.waitForOutput(/watching \d+ process/);
    await askUntil(
      () => capture.hasEnded,
      () => ask(`/pay/42?token=${secret}&page=2`, { authorization: `Bearer ${secret}`, cookie: `sid=${secret}`, "user-agent": "probe/1" }),
    );
    expect((await capture.ended).code).toBe(0);
    const seen = requestsIn(capture.output);
    expect(seen).toHaveLength(3);
    expect(seen[0]).toMatchObject({ service, method: "GET", route: "/pay/{id}", status: "200", role: "server", protocol: "http" });
    expect(seen[0]?.target).toMatch(/^\/pay\/42\?token=.+&page=2$/);
    expect(seen[0]?.requestHeaders).toContainEqual(["user-agent", "probe/1"]);
    expect(seen[0]?.durationUs).toBeGreaterThan(0);
    expect(capture.output).not.toContain(secret);
  });

  it("applies its filters", async () => {
    await using capture = startCapture(["--limit", "2", "--status", "5xx", "-o", "json"]);
    await capture.waitForOutput(/watching \d+ process/);
    await askUntil(
      () => capture.hasEnded,
      async () => {
        await ask("/fine");
        await ask("/fail/now");
      },
    );
    expect(requestsIn(capture.output).map(({ route, status, isError }) => [route, status, isError])).toEqual([
      ["/fail/now", "503", true],
      ["/fail/now", "503", true],
    ]);
  });

  it("ends after its duration, leaves nothing behind when killed, and is audited", async () => {
    await using timed = startCapture(["--duration", "1s", "--route", "/never-requested"]);
    expect((await timed.ended).code).toBe(4);
    const killed = startCapture(["--duration", "60s"]);
    await killed.waitForOutput(/watching \d+ process/);
    await killed.kill("SIGKILL");
    const ends = await waitFor("both ends", async () => {
      const { events } = await colony.tool<EventList>("coral_list_events", { service, kind: "capture-ended" });
      const reasons = events.map(({ details }) => details["reason"]);
      return reasons.includes("expired") && reasons.includes("cancelled") && events;
    });
    expect(ends[0]?.details).toMatchObject({ caller: "local:uid=0" });
    const { stdout } = await runCoral(["events", "--kind", "capture-started", "--service", service], { home: home.path });
    expect(stdout).toContain("local:uid=0 captures requests of storefront");
  });

  it("stores nothing of the captured requests", async () => {
    const rows = await colony.sql(`SELECT count(*) AS n FROM red WHERE route LIKE '%${secret}%' OR peer LIKE '%${secret}%'`);
    expect(rows).toEqual([{ n: 0 }]);
    const events = await colony.sql(`SELECT count(*) AS n FROM agent_event WHERE details LIKE '%${secret}%' OR message LIKE '%${secret}%'`);
    expect(events).toEqual([{ n: 0 }]);
  });

  it("ends when the traffic process or the agent is killed", async () => {
    await using first = startCapture(["--duration", "60s", "--route", "/never-requested"]);
    await first.waitForOutput(/watching \d+ process/);
    const pid = await waitFor("the traffic process", async () => (await trafficStatus()).pid);
    process.kill(pid, "SIGKILL");
    expect((await first.ended).code).toBe(1);
    expect(first.output).toContain("traffic process exited and is restarting");
    await waitFor("hooks to be attached again", async () => (await trafficStatus()).pid !== pid && (await trafficStatus()).state === "on");
    await using second = startCapture(["--duration", "60s", "--route", "/never-requested"]);
    await second.waitForOutput(/watching \d+ process/);
    await agent.kill("SIGKILL");
    expect((await second.ended).code).toBe(1);
  });

  it("waits for an agent that has just started", async () => {
    await agent.stop();
    agent = await startAgent({ home: home.path, config: agentConfig, traffic: true });
    await agent.waitUntilConnected();
    await using capture = startCapture(["--limit", "1", "--route", "/early", "-o", "json"]);
    await capture.waitForOutput(/watching \d+ process/);
    await askUntil(
      () => capture.hasEnded,
      () => ask("/early"),
    );
    expect((await capture.ended).code).toBe(0);
  });

  it("names an unknown service", async () => {
    expect((await runCoral(["capture", "no-such-service"], { home: home.path })).code).toBe(4);
  });
});
