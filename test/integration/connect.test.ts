/** `coral connect` and `coral disconnect` against the agent's real control server, store and health checks. */

import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { agentRoutes } from "../../src/agent/agent-routes.ts";
import { DatabaseService } from "../../src/agent/databases/database-service.ts";
import { ServiceIdentities } from "../../src/agent/naming/service-identities.ts";
import { openManaged } from "../../src/agent/open-managed.ts";
import { systemClock } from "../../src/base/clock.ts";
import { CoralError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import { runCli } from "../../src/cli/index.ts";
import { agentPaths } from "../../src/config/index.ts";
import type { DatabaseFacts } from "../../src/model/database-facts.ts";
import { type AgentStore, openAgentStore } from "../../src/store/agent/index.ts";
import { openEngine } from "../../src/store/engine/index.ts";
import { signals } from "../../src/store/signals/index.ts";
import { createHttpRoutes, startControlServer } from "../../src/transport/index.ts";

const mebibyte = 1024 ** 2;
const secret = "horse-battery-staple";
const noFacts: DatabaseFacts = {
  engine: "postgres",
  version: "15.1",
  user: "",
  database: "",
  canWrite: false,
  connections: null,
  clients: [],
  locks: [],
  plan: null,
  tables: [],
  statements: [],
  cache: null,
  notes: [],
};

let home: string;
let stack: ResourceStack;
let store: AgentStore;
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "coral-connect-"));
  stack = new ResourceStack();
  stack.defer(() => rmSync(home, { recursive: true, force: true }));
  const { dataDirectory, databaseFile } = agentPaths(home);
  mkdirSync(dataDirectory, { recursive: true });
  const engine = stack.use(
    await openEngine({ dataDirectories: [dataDirectory], memoryLimitBytes: 128 * mebibyte, threads: 1, log: silentLogger }),
  );
  store = stack.use(
    await openAgentStore(engine, { file: databaseFile, signals, maxBytes: 64 * mebibyte, clock: systemClock, log: silentLogger }),
  );
});
afterEach(() => stack[Symbol.asyncDispose]());

/** Serves the agent's service registry on its control socket. Returns a stop function. */
async function startAgent(): Promise<() => Promise<void>> {
  const { directory, socketFile } = agentPaths(home);
  const managed = await openManaged({
    file: join(directory, "services.json"),
    identities: new ServiceIdentities("vm-1"),
    owner: undefined,
    store,
    settings: () => ({ intervalMs: 10, timeoutMs: 30_000, unhealthyAfter: 2, healthyAfter: 1 }),
    clock: systemClock,
    log: silentLogger,
  });
  const databases = await DatabaseService.open({
    file: join(directory, "database-credentials.json"),
    owner: undefined,
    addressesOf: async () => [],
    audit: () => Promise.resolve(),
    clock: systemClock,
    inspect: async ({ credentials: { user, password, engine } }) => {
      if (password !== secret)
        throw new CoralError({ code: "unauthenticated", message: `cannot log in to the database as "${user}": wrong password` });
      return { ...noFacts, engine, user };
    },
    log: silentLogger,
  });
  const controller = new AbortController();
  const done = managed.checks.run(controller.signal);
  const server = await startControlServer({
    path: socketFile,
    peerCredentials: undefined,
    log: silentLogger,
    http: createHttpRoutes({
      routes: agentRoutes({
        status: () => Promise.reject(new Error("not asked for")),
        registry: managed.registry,
        databases,
        healthOf: (port) => managed.services.healthOf(port),
        discoveredAt: (port, protocol) => managed.facts.discoveredAt(port, protocol),
        onChange: () => managed.checks.refresh(),
      }),
      authorize: (caller) => ({ name: caller.kind }),
      notReady: () => undefined,
      metrics: () => Promise.resolve(""),
      log: silentLogger,
    }),
  });
  const stop = async (): Promise<void> => {
    controller.abort();
    await done;
    await server.close();
  };
  stack.defer(stop);
  return stop;
}

async function coral(line: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const written = { stdout: "", stderr: "" };
  const code = await runCli(["node", "coral", ...line.split(" ")], {} as never, {
    stdout: {
      write: (text) => {
        written.stdout += text;
      },
    },
    stderr: {
      write: (text) => {
        written.stderr += text;
      },
    },
    stdin: { async *[Symbol.asyncIterator]() {} },
    env: { CORAL_HOME: home },
    signal: new AbortController().signal,
  });
  return { code, ...written };
}

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(() => void server.close());
  return (server.address() as AddressInfo).port;
}

async function health(): Promise<Record<string, string>> {
  const { stdout } = await coral("__complete managed-services");
  const names = stdout.trim().split("\n");
  const states: Record<string, string> = {};
  for (const name of names) {
    const rows = await store.query("SELECT details FROM agent_event WHERE details->>'name' = ? ORDER BY seq DESC LIMIT 1", [name]);
    states[name] = rows[0] === undefined ? "no event" : String((JSON.parse(String(rows[0]["details"])) as { after: string }).after);
  }
  return states;
}

describe("coral connect", () => {
  it("registers services, checks them, keeps them across a restart, and removes them", async () => {
    let status = 200;
    const http = await listen(createHttpServer((_request, response) => response.writeHead(status).end()));
    const tcp = await listen(createServer((socket) => socket.end()));
    const stop = await startAgent();

    const connected = await coral(`connect api:${http}:/health:http cache:${tcp} gone:1`);
    expect(connected).toMatchObject({ code: 0, stderr: "" });
    expect(connected.stdout).toContain(`✓ Service 'api' registered as managed\n  Nothing was discovered on port ${http} yet\n`);
    await vi.waitFor(async () => expect(await health()).toEqual({ api: "no event", cache: "no event", gone: "unhealthy" }));

    status = 503;
    await vi.waitFor(async () => expect(await health()).toMatchObject({ api: "unhealthy" }));
    const [row] = await store.query("SELECT severity, message FROM agent_event WHERE details->>'name' = 'api'");
    expect(row).toEqual({ severity: "error", message: `api on port ${http} is unhealthy: HTTP 503 of /health` });

    await stop();
    expect(await coral("connect late:2")).toMatchObject({ code: 1, stderr: expect.stringContaining("coral agent start") });
    await startAgent();
    status = 204;
    await vi.waitFor(async () => expect(await health()).toEqual({ api: "healthy", cache: "no event", gone: "unhealthy" }));

    expect((await coral("disconnect api gone")).stdout).toContain("✓ Service 'gone' is no longer managed\n");
    expect(await health()).toEqual({ cache: "no event" });
  });

  it("changes nothing if the agent refuses one of several", async () => {
    await startAgent();
    await coral("connect api:8080");
    const refused = await coral("connect db:5432 web:8080");
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toBe('error: Cannot connect service "web": port 8080 is connected as "api"; first run "coral disconnect api"\n');
    expect(Object.keys(await health())).toEqual(["api"]);
    expect((await coral("connect api:8080:/health")).stdout).toBe("✓ Service 'api' updated\n  Health check: GET /health on port 8080\n");
    expect(await coral("disconnect db")).toMatchObject({ code: 4 });
  });

  it("stores valid credentials in one private file until disconnect, and wrong ones nowhere", async () => {
    const { directory } = agentPaths(home);
    const [given, kept] = [join(home, "pg-readonly"), join(directory, "database-credentials.json")];
    await startAgent();
    writeFileSync(given, `user: coral_ro\npassword: ${secret}\n`, { mode: 0o644 });
    chmodSync(given, 0o644);
    const open = await coral(`connect db:5432 --credentials-file ${given}`);
    expect(open).toMatchObject({
      code: 64,
      stderr: expect.stringContaining(`other users may read it (mode 0644); run chmod 600 ${given}`),
    });

    chmodSync(given, 0o600);
    const connected = await coral(`connect db:5432 --credentials-file ${given}`);
    expect(connected).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Database: postgres 15.1 as "coral_ro", read-only\n'),
    });
    expect(statSync(kept).mode & 0o777).toBe(0o600);
    rmSync(given);
    expect(filesWith(secret)).toEqual([kept]);
    expect(JSON.stringify(await coral("connect db:5432 -o json"))).not.toContain(secret);

    writeFileSync(given, "user: coral_ro\npassword: wrong-secret\n", { mode: 0o600 });
    const refused = await coral(`connect cache:6379 --credentials-file ${given}`);
    expect(refused).toMatchObject({ code: 3, stdout: "", stderr: 'error: cannot log in to the database as "coral_ro": wrong password\n' });
    expect(filesWith("wrong-secret")).toEqual([given]);
    expect(await coral(`connect a:1 b:2 --credentials-file ${given}`)).toMatchObject({ code: 64 });
    expect(await coral(`connect thing:7000 --credentials-file ${given}`)).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("thing:7000::postgres"),
    });

    await coral("disconnect db");
    expect(filesWith(secret)).toEqual([]);
  });
});

/** Files of the home that contain a text. */
function filesWith(text: string): string[] {
  const files = readdirSync(home, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.map((entry) => join(entry.parentPath, entry.name)).filter((file) => readFileSync(file).includes(text));
}
