import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { request as httpsRequest } from "node:https";
import { type AddressInfo, createServer } from "node:net";
import { connect as connectTls } from "node:tls";
import { type Client, createClient } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { CoralError } from "../base/errors.ts";
import { silentLogger } from "../base/log.ts";
import { ColonyService } from "../proto/coral/colony/v1/colony_pb.ts";
import { hourMs, issueIdentity, startTestColony, type TestColony, temporaryDirectory } from "./colony.fixture.ts";
import { createHttpRoutes } from "./http/http-routes.ts";
import { fromConnectError } from "./http/rpc-errors.ts";
import { createAuthority } from "./trust/authority.ts";
import type { Caller } from "./trust/caller.ts";
import type { Identity } from "./trust/identity.ts";
import { createClientSession, createSessionTransport } from "./tunnel/session-transport.ts";

interface Reply {
  status: number;
  body: string;
}

/** Plain HTTP, as curl would send it. */
function get(port: number, path: string, headers: Record<string, string> = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, path, headers, agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => (body += text));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    request.on("error", reject).end();
  });
}

/** An RPC client that does not check the server: only the server is under test here. */
async function rpcClient(
  colony: TestColony,
  identity?: Pick<Identity, "certPem" | "keyPem">,
): Promise<AsyncDisposable & { client: Client<typeof ColonyService> }> {
  const socket = connectTls({
    host: "127.0.0.1",
    port: colony.server.port,
    ALPNProtocols: ["h2"],
    rejectUnauthorized: false,
    ...(identity ? { cert: identity.certPem, key: identity.keyPem } : {}),
  });
  await once(socket, "secureConnect");
  const session = createClientSession(socket);
  const transport = createSessionTransport(session, { maxReplyBytes: 100_000, closedReason: () => "closed" });
  return {
    client: createClient(ColonyService, transport),
    [Symbol.asyncDispose]: async () => {
      session.destroy();
    },
  };
}

async function registerFailure(colony: TestColony, identity?: Pick<Identity, "certPem" | "keyPem">): Promise<CoralError> {
  await using connection = await rpcClient(colony, identity);
  const result = await connection.client.register({}).catch(fromConnectError);
  if (result instanceof CoralError) return result;
  throw new Error("was accepted");
}

test("a verified agent is identified by its certificate, not by its request", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  await using connection = await rpcClient(colony, identity);
  const reply = await connection.client.register({ agentId: "someone-else" });
  expect(reply.sessionId).toBe("session of web-1");
});

test("calls other than Join are refused with the exact reason", async () => {
  await using colony = await startTestColony();
  await using dir = await temporaryDirectory();
  const { authority } = colony;
  const unauthenticated = (text: string) => ({ code: "unauthenticated", message: expect.stringContaining(text) });

  expect(await registerFailure(colony)).toMatchObject(unauthenticated("no client certificate"));
  const expired = await issueIdentity(authority, "web-1", { ttlMs: hourMs, nowMs: Date.now() - 2 * hourMs });
  expect(await registerFailure(colony, expired)).toMatchObject(unauthenticated("expired on 2"));
  const early = await issueIdentity(authority, "web-1", { ttlMs: hourMs, nowMs: Date.now() + 30 * hourMs });
  expect(await registerFailure(colony, early)).toMatchObject(unauthenticated("not valid before 2"));
  const impostor = await createAuthority(`${dir.path}/a`, authority.colonyId);
  expect(await registerFailure(colony, await issueIdentity(impostor, "web-1"))).toMatchObject(
    unauthenticated(`signed by another authority "coral colony ${authority.colonyId}"`),
  );
  const other = await createAuthority(`${dir.path}/b`, "bank-prod-ffffff");
  expect(await registerFailure(colony, await issueIdentity(other, "web-1"))).toMatchObject(
    unauthenticated(`for colony "bank-prod-ffffff", this is "${authority.colonyId}"`),
  );
  const poser = await authority.issueColony({ ttlMs: hourMs });
  expect(await registerFailure(colony, poser)).toMatchObject(unauthenticated("not an agent's"));
});

test("a revocation takes effect on a connection that is already open", async () => {
  await using colony = await startTestColony();
  await using connection = await rpcClient(colony, await issueIdentity(colony.authority, "web-1"));
  await connection.client.register({});
  colony.revoked.add("web-1");
  const refused = await connection.client.register({}).catch(fromConnectError);
  expect(refused).toMatchObject({ code: "unauthenticated", message: expect.stringContaining('agent "web-1" is revoked') });
});

test("plain HTTP is served to loopback peers only", async () => {
  await using colony = await startTestColony();
  expect(await get(colony.server.port, "/healthz")).toEqual({ status: 200, body: '{"status":"ok"}' });
  expect(await get(colony.server.port, "/metrics")).toEqual({ status: 200, body: "coral_up 1\n" });

  await using remote = await startTestColony({ isLoopback: () => false });
  const refused = await get(remote.server.port, "/healthz");
  expect(refused.status).toBe(426);
  expect(refused.body).toContain("use TLS");
  expect(remote.server.stats().refused["plain-http"]).toBe(1);
});

test("plain HTTP refuses foreign host names and origins (DNS rebinding)", async () => {
  await using colony = await startTestColony();
  const { port } = colony.server;
  expect((await get(port, "/metrics", { host: "evil.example" })).status).toBe(403);
  expect((await get(port, "/metrics", { origin: "https://evil.example" })).status).toBe(403);
  expect((await get(port, "/metrics", { origin: "http://localhost:3000" })).status).toBe(200);
  expect(colony.server.stats().refused["foreign-host"]).toBe(2);
});

test("plain HTTP does not reach the RPC services", async () => {
  await using colony = await startTestColony();
  expect((await get(colony.server.port, "/coral.colony.v1.ColonyService/Join")).status).toBe(404);
});

test("the JSON handler gets the caller, over HTTP/1.1 and HTTP/2 with TLS", async () => {
  const callers: Caller[] = [];
  await using colony = await startTestColony({
    http: (_request, response, caller) => {
      callers.push(caller);
      response.end("ok");
    },
  });
  const { port } = colony.server;
  const identity = await issueIdentity(colony.authority, "web-1");
  const tls = { ca: colony.authority.caPem, servername: "localhost" };

  const viaHttp1 = await new Promise<number>((resolve, reject) => {
    const client = { cert: identity.certPem, key: identity.keyPem };
    httpsRequest({ host: "127.0.0.1", port, path: "/x", agent: false, ...tls, ...client }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    })
      .on("error", reject)
      .end();
  });
  expect(viaHttp1).toBe(200);

  const session = connectHttp2(`https://127.0.0.1:${port}`, tls);
  const stream = session.request({ ":path": "/x" });
  let body = "";
  stream.setEncoding("utf8").on("data", (text: string) => (body += text));
  await once(stream, "end");
  session.destroy();
  expect(body).toBe("ok");

  await get(port, "/x");
  expect(callers).toEqual([
    { kind: "agent", agentId: "web-1" },
    { kind: "anonymous", loopback: true },
    { kind: "anonymous", loopback: true },
  ]);
});

test("JSON endpoints report an unacceptable client certificate", async () => {
  await using dir = await temporaryDirectory();
  const impostor = await createAuthority(dir.path, "shop-test-0a1b2c");
  await using colony = await startTestColony({
    routing: {
      routes: [{ kind: "json", method: "GET", path: "/v1/x", permission: "read", handle: () => ({ kind: "json", value: 1 }) }],
      authorize: (caller) => {
        if (caller.kind === "refused")
          throw new CoralError({ code: "unauthenticated", message: `Cannot serve the request: ${caller.reason}` });
        return { name: caller.kind };
      },
    },
  });
  const identity = await issueIdentity(impostor, "web-1");
  const session = connectHttp2(`https://127.0.0.1:${colony.server.port}`, {
    rejectUnauthorized: false,
    cert: identity.certPem,
    key: identity.keyPem,
  });
  const stream = session.request({ ":path": "/v1/x" });
  const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
  expect(headers[":status"]).toBe(401);
  session.destroy();
});

test("JSON and web routes work over HTTP/2, even if the body is refused", async () => {
  await using colony = await startTestColony({
    limits: { maxStreams: 2 },
    routing: {
      maxBodyBytes: 1_000,
      routes: [
        { kind: "json", method: "POST", path: "/v1/echo", permission: "read", handle: ({ body }) => ({ kind: "json", value: body }) },
        {
          kind: "web",
          methods: ["POST"],
          path: "/mcp",
          permission: "read",
          handle: async (request) => new Response(await request.text(), { headers: { connection: "keep-alive", "x-a": "1" } }),
        },
      ],
    },
  });
  const session = connectHttp2(`https://127.0.0.1:${colony.server.port}`, { rejectUnauthorized: false });
  const post = async (path: string, text: string): Promise<[unknown, string]> => {
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/json" });
    stream.on("error", () => undefined).end(text);
    let body = "";
    stream.setEncoding("utf8").on("data", (part: string) => (body += part));
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
    await once(stream, "end");
    return [headers[":status"], body];
  };
  expect(await post("/v1/echo", '{"a":1}')).toEqual([200, '{"a":1}']);
  expect(await post("/mcp", '{"a":2}')).toEqual([200, '{"a":2}']);
  // More requests than streams: a refused one must release its stream although its body never ends.
  for (let round = 0; round < 3; round++) {
    expect((await post("/v1/echo", "x".repeat(300_000)))[0]).toBe(413);
    expect((await post("/v1/nothing", "x".repeat(300_000)))[0]).toBe(404);
  }
  expect(await post("/v1/echo", "3")).toEqual([200, "3"]);
  session.destroy();
});

test("TLS 1.2 and unknown application protocols are refused", async () => {
  await using colony = await startTestColony();
  const options = { host: "127.0.0.1", port: colony.server.port, rejectUnauthorized: false };
  await expect(once(connectTls({ ...options, maxVersion: "TLSv1.2" }), "secureConnect")).rejects.toMatchObject({ code: /ERR_SSL/ });
  await expect(once(connectTls({ ...options, ALPNProtocols: ["spdy/3"] }), "secureConnect")).rejects.toMatchObject({ code: /ERR_SSL/ });
  await expect.poll(() => colony.server.stats().refused.handshake).toBe(2);
});

test("startColonyServer() picks the next free port with portSearch, and fails without it", async () => {
  const blocker = createServer().listen(0, "127.0.0.1");
  await once(blocker, "listening");
  const { port } = blocker.address() as AddressInfo;
  await expect(startTestColony({ port })).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining(`port ${port} in use`),
  });
  await using colony = await startTestColony({ port, portSearch: 50 });
  expect(colony.server.port).toBeGreaterThan(port);
  expect(colony.server.port).toBeLessThanOrEqual(port + 50);
  blocker.close();
});

test("reloadTls() serves the new certificate to new connections and keeps open ones", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(dir.path, "shop-test-0a1b2c");
  let current = await authority.issueColony({ ttlMs: hourMs });
  await using colony = await startTestColony({ authority, tls: () => ({ ...current, caPem: authority.caPem }) });
  const serial = async (): Promise<string> => {
    const socket = connectTls({ host: "127.0.0.1", port: colony.server.port, rejectUnauthorized: false, ALPNProtocols: ["h2"] });
    await once(socket, "secureConnect");
    const { serialNumber } = socket.getPeerCertificate();
    socket.destroy();
    return serialNumber.toLowerCase();
  };
  await using open = await rpcClient(colony, await issueIdentity(authority, "web-1"));
  await open.client.register({});
  expect(await serial()).toBe(current.serial);
  current = await authority.issueColony({ ttlMs: hourMs });
  colony.server.reloadTls();
  expect(await serial()).toBe(current.serial);
  await open.client.register({});
});

test("close() lets a request in progress finish and closes idle connections at once", async () => {
  let answer: (() => void) | undefined;
  await using colony = await startTestColony({
    limits: { drainTimeoutMs: 25_000 },
    http: (_request, response) => {
      answer = () => response.end("late");
    },
  });
  await using idle = await rpcClient(colony);
  const slow = get(colony.server.port, "/slow");
  await expect.poll(() => answer).toBeDefined();
  const startedAtMs = performance.now();
  const closing = colony.server.close();
  answer?.();
  expect((await slow).body).toBe("late");
  await closing;
  await colony.server.close();
  expect(performance.now() - startedAtMs).toBeLessThan(20_000);
  await expect(get(colony.server.port, "/x")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  expect(await idle.client.join({}).catch(fromConnectError)).toMatchObject({ code: "unavailable" });
});

test("close() does not wait longer than drainTimeoutMs for a request that never ends", async () => {
  await using colony = await startTestColony({ limits: { drainTimeoutMs: 100 }, http: () => undefined });
  const hanging = get(colony.server.port, "/never").catch((error: Error) => error);
  await expect.poll(() => colony.server.stats().requestConnections).toBe(1);
  await colony.server.close();
  expect(await hanging).toBeInstanceOf(Error);
});

test("connections above the limit are dropped, and slots become free again", async () => {
  await using colony = await startTestColony({ limits: { maxRequestConnections: 1 } });
  const first = await rpcClient(colony);
  await expect.poll(() => colony.server.stats().requestConnections).toBe(1);
  await expect(get(colony.server.port, "/healthz")).rejects.toThrow();
  expect(colony.server.stats().refused.limit).toBe(1);
  await first[Symbol.asyncDispose]();
  await expect.poll(() => colony.server.stats().requestConnections).toBe(0);
  expect((await get(colony.server.port, "/healthz")).status).toBe(200);
});

test("createHttpRoutes() behind the port denies /metrics to anonymous remote callers", async () => {
  await using colony = await startTestColony({
    isLoopback: () => false,
    http: createHttpRoutes({
      routes: [],
      authorize: () => {
        throw new CoralError({ code: "unauthenticated", message: "Cannot serve the request: show a token" });
      },
      notReady: () => undefined,
      metrics: () => Promise.resolve("secret"),
      log: silentLogger,
    }),
  });
  const session = connectHttp2(`https://127.0.0.1:${colony.server.port}`, { rejectUnauthorized: false });
  const status = async (path: string): Promise<unknown> => {
    const stream = session.request({ ":path": path });
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
    return headers[":status"];
  };
  expect(await status("/healthz")).toBe(200);
  expect(await status("/metrics")).toBe(401);
  session.destroy();
});
