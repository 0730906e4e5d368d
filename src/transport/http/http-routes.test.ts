import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { recordedLog } from "../colony.fixture.ts";
import type { Caller } from "../trust/caller.ts";
import { createHttpRoutes, type HttpRoutesOptions, type Permission, type Route } from "./http-routes.ts";

interface TestServer extends AsyncDisposable {
  url: string;
  port: number;
  checks: [Caller, Permission][];
  log: ReturnType<typeof recordedLog>;
}

async function serve(routes: Route[], caller: Caller, options: Partial<HttpRoutesOptions> = {}): Promise<TestServer> {
  const log = recordedLog();
  const checks: [Caller, Permission][] = [];
  const handler = createHttpRoutes({
    routes,
    authorize: (who, permission) => {
      checks.push([who, permission]);
      if (who.kind === "anonymous") throw new CoralError({ code: "unauthenticated", message: "Cannot serve the request: unknown caller" });
      return { name: who.kind };
    },
    notReady: () => undefined,
    metrics: () => Promise.resolve("up 1\n"),
    log: log.log,
    ...options,
  });
  const server: Server = createServer((request, response) => handler(request, response, caller)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    checks,
    log,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const local: Caller = { kind: "local", uid: 1, pid: 2 };
const stranger: Caller = { kind: "anonymous", loopback: false };
const neighbour: Caller = { kind: "anonymous", loopback: true };

const whoRoute: Route = {
  kind: "json",
  method: "GET",
  path: "/who",
  permission: "debug",
  handle: ({ caller, principal }) => ({ kind: "json", value: { caller, principal } }),
};

test("createHttpRoutes() serves health to everyone and metrics to this machine", async () => {
  await using here = await serve([], neighbour);
  expect(await (await fetch(`${here.url}/healthz`)).json()).toEqual({ status: "ok" });
  expect(await (await fetch(`${here.url}/readyz`)).json()).toEqual({ status: "ready" });
  const metrics = await fetch(`${here.url}/metrics`);
  expect(metrics.headers.get("content-type")).toContain("version=0.0.4");
  expect(here.checks).toEqual([]);

  await using elsewhere = await serve([], stranger, { notReady: () => "the store is being opened" });
  expect((await fetch(`${elsewhere.url}/healthz`)).status).toBe(200);
  const ready = await fetch(`${elsewhere.url}/readyz`);
  expect([ready.status, await ready.json()]).toEqual([503, { status: "not ready", reason: "the store is being opened" }]);
  expect((await fetch(`${elsewhere.url}/metrics`)).status).toBe(401);
  expect(elsewhere.checks).toEqual([[stranger, "read"]]);
});

test("createHttpRoutes() calls authorize() before it reads the body or runs the handler", async () => {
  let ran = false;
  const route: Route = {
    kind: "json",
    method: "POST",
    path: "/x",
    permission: "admin",
    handle: () => {
      ran = true;
      return { kind: "json", value: 1 };
    },
  };
  await using server = await serve([route], stranger);
  const socket = connect(server.port, "127.0.0.1");
  socket.write("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{");
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString()).toContain("401");
  socket.destroy();
  expect(ran).toBe(false);
  expect(server.checks).toEqual([[stranger, "admin"]]);
});

test("createHttpRoutes() turns a bearer token into a caller, but never overrides a verified one", async () => {
  const headers = { authorization: "Bearer coral_user_abc" };
  await using anonymous = await serve([whoRoute], stranger);
  expect(await (await fetch(`${anonymous.url}/who`, { headers })).json()).toEqual({
    caller: { kind: "bearer", token: "coral_user_abc", loopback: false },
    principal: { name: "bearer" },
  });
  for (const authorization of ["Basic abc", "Bearer", "Bearer a b"]) {
    expect((await fetch(`${anonymous.url}/who`, { headers: { authorization } })).status).toBe(401);
  }
  await using refused = await serve([whoRoute], { kind: "refused", reason: "r", loopback: false });
  expect(await (await fetch(`${refused.url}/who`, { headers })).json()).toMatchObject({ caller: { kind: "bearer" } });
  await using agent = await serve([whoRoute], { kind: "agent", agentId: "a" });
  expect(await (await fetch(`${agent.url}/who`, { headers })).json()).toMatchObject({ caller: { kind: "agent" } });
});

test("createHttpRoutes() lets a handler require more than the route's permission", async () => {
  const route: Route = {
    kind: "json",
    method: "POST",
    path: "/tools/:name",
    permission: "read",
    handle: async ({ authorize, params }) => ({ kind: "json", value: { ...(await authorize("exec")), tool: params["name"] } }),
  };
  await using server = await serve([route], local);
  expect(await (await fetch(`${server.url}/tools/ps`, { method: "POST" })).json()).toEqual({ name: "local", tool: "ps" });
  expect(server.checks.map(([, permission]) => permission)).toEqual(["read", "exec"]);
});

test.each([
  ["GET", "/nothing", 404, "not-found"],
  ["GET", "/who/more", 404, "not-found"],
  ["GET", "/who/", 404, "not-found"],
  ["POST", "/who", 405, "invalid"],
  ["DELETE", "/healthz", 405, "invalid"],
])("createHttpRoutes() replies to %s %s with %i and the JSON error", async (method, path, status, code) => {
  await using server = await serve([whoRoute], local);
  const reply = await fetch(`${server.url}${path}`, { method });
  expect(reply.status).toBe(status);
  expect(await reply.json()).toMatchObject({ error: { code, message: expect.stringContaining("Cannot serve") } });
});

test.each(["//evil.example/who", "*", "http://evil.example/who", "/%zz"])(
  "createHttpRoutes() survives the request target %j",
  async (target) => {
    await using server = await serve([whoRoute, { ...whoRoute, path: "/:x" }], local);
    const socket = connect(server.port, "127.0.0.1");
    socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 40[04]/);
    socket.destroy();
  },
);

test("createHttpRoutes() refuses bodies that are not JSON, by type and by content", async () => {
  const route: Route = {
    kind: "json",
    method: "POST",
    path: "/x",
    permission: "read",
    handle: ({ body }) => ({ kind: "json", value: { body } }),
  };
  await using server = await serve([route], local);
  const post = async (body: string, type: string): Promise<[number, unknown]> => {
    const reply = await fetch(`${server.url}/x`, { method: "POST", body, headers: { "content-type": type } });
    return [reply.status, await reply.json()];
  };
  expect(await post('{"a":1}', "application/json; charset=utf-8")).toEqual([200, { body: { a: 1 } }]);
  expect((await post('{"a":1}', "text/plain"))[0]).toBe(400);
  expect((await post("{", "application/json"))[1]).toMatchObject({
    error: { code: "invalid", message: expect.stringContaining("not valid JSON") },
  });
});

test("createHttpRoutes() times out on a body that does not arrive", async () => {
  const route: Route = { kind: "json", method: "POST", path: "/x", permission: "read", handle: () => ({ kind: "json", value: 1 }) };
  await using server = await serve([route], local, { bodyTimeoutMs: 50 });
  const socket = connect(server.port, "127.0.0.1");
  socket.write("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n");
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString()).toContain("504");
  await once(socket.resume(), "close");
});

test("createHttpRoutes() hides unexpected errors from the caller and logs them", async () => {
  const route: Route = {
    kind: "json",
    method: "GET",
    path: "/bug",
    permission: "read",
    handle: () => {
      throw new TypeError("secret detail");
    },
  };
  await using server = await serve([route], local);
  const reply = await fetch(`${server.url}/bug`);
  expect(reply.status).toBe(500);
  expect(await reply.text()).not.toContain("secret detail");
  expect(server.log.records.at(-1)?.fields["error"]).toBeInstanceOf(TypeError);
});

test("createHttpRoutes() writes bigints, and aborts the handler's signal when the caller hangs up", async () => {
  let handled = false;
  let aborted = false;
  const routes: Route[] = [
    { kind: "json", method: "GET", path: "/big", permission: "read", handle: () => ({ kind: "json", value: { seq: 2n ** 60n } }) },
    {
      kind: "json",
      method: "GET",
      path: "/wait",
      permission: "read",
      handle: ({ signal }) => {
        handled = true;
        signal.addEventListener("abort", () => {
          aborted = true;
        });
        return new Promise<never>(() => undefined);
      },
    },
  ];
  await using server = await serve(routes, local);
  expect(await (await fetch(`${server.url}/big`)).text()).toBe('{"seq":"1152921504606846976"}');
  const controller = new AbortController();
  const call = fetch(`${server.url}/wait`, { signal: controller.signal }).catch(() => "gone");
  await expect.poll(() => handled).toBe(true);
  controller.abort();
  expect(await call).toBe("gone");
  await expect.poll(() => aborted).toBe(true);
});

test("createHttpRoutes() serves web handlers, with streamed replies that end with the caller", async () => {
  let cancelled = false;
  const route: Route = {
    kind: "web",
    methods: ["GET", "POST"],
    path: "/mcp",
    permission: "read",
    handle: async (request) => {
      if (request.method === "POST") {
        return new Response(JSON.stringify({ got: await request.json(), type: request.headers.get("content-type") }), {
          status: 202,
          headers: { "x-session": "1", connection: "keep-alive" },
        });
      }
      const source = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(Buffer.from("event: hello\n\n")),
        cancel: () => {
          cancelled = true;
        },
      });
      return new Response(source, { headers: { "content-type": "text/event-stream" } });
    },
  };
  await using server = await serve([route], local);
  const posted = await fetch(`${server.url}/mcp`, { method: "POST", body: '{"a":1}', headers: { "content-type": "application/json" } });
  expect([posted.status, posted.headers.get("x-session"), await posted.json()]).toEqual([
    202,
    "1",
    { got: { a: 1 }, type: "application/json" },
  ]);

  const controller = new AbortController();
  const stream = await fetch(`${server.url}/mcp`, { signal: controller.signal });
  const reader = stream.body?.getReader();
  const first = await reader?.read();
  expect(Buffer.from(first?.value ?? []).toString()).toBe("event: hello\n\n");
  controller.abort();
  await expect.poll(() => cancelled).toBe(true);
});
