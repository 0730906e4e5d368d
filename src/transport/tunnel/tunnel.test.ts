import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { createClient } from "@connectrpc/connect";
import { expect, test, vi } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import { agentRoutes, hourMs, issueIdentity, startTestColony, type TestColony, temporaryDirectory } from "../colony.fixture.ts";
import { fromConnectError } from "../http/rpc-errors.ts";
import { createAuthority } from "../trust/authority.ts";
import type { Identity } from "../trust/identity.ts";
import { type DialledTunnel, type DialTunnelOptions, dialTunnel } from "./dial-tunnel.ts";
import type { Tunnel } from "./tunnel.ts";

const never = new AbortController().signal;

function dial(endpoint: string, identity: Identity, options: Partial<DialTunnelOptions> = {}): Promise<DialledTunnel> {
  const { agentId, colonyId } = identity;
  return dialTunnel({
    endpoint,
    identity,
    colonyId,
    routes: agentRoutes(agentId),
    signal: never,
    log: silentLogger,
    timeoutMs: 20_000,
    ...options,
  });
}

async function failure(dialling: Promise<DialledTunnel>): Promise<CoralError> {
  try {
    const tunnel = await dialling;
    await tunnel.close("was not refused");
  } catch (error) {
    if (error instanceof CoralError) return error;
    throw error;
  }
  throw new Error("was accepted");
}

/** A TCP proxy that can stop forwarding silently, as a network partition does. */
async function startProxy(endpoint: string): Promise<AsyncDisposable & { endpoint: string; partition(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(endpoint.split(":")[1]), "127.0.0.1");
    for (const socket of [near, far]) sockets.add(socket.on("error", () => undefined));
    near.pipe(far);
    far.pipe(near);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    partition: () => {
      for (const socket of sockets) socket.unpipe().pause();
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test("dialTunnel() lets the colony call AgentService.Pull through real TLS", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  await using tunnel = await dial(colony.endpoint, identity);
  const accepted = await colony.nextTunnel();
  expect(accepted.agentId).toBe("web-1");
  expect(accepted.remoteAddress).toMatch(/^127\.0\.0\.1:\d+$/);
  expect(colony.server.stats()).toMatchObject({ tunnels: 1, pendingConnections: 0 });
  const client = createClient(AgentService, accepted.transport);
  expect((await client.hello({})).agentId).toBe("web-1");
  const reply = await client.pull({ cursors: [{ signal: "host", afterSeq: 41n }], maxBytes: 1_000n });
  expect(reply.slices[0]?.nextSeq).toBe(42n);
  await tunnel.close("test ends");
  expect((await accepted.closed).reason).toBe("closed by the agent: test ends");
  expect((await tunnel.closed).code).toBe("cancelled");
});

test("a tunnel carries a reply of 8 MiB while small calls continue", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  const data = new Uint8Array(8 * 1024 * 1024).map((_, index) => index * 31);
  await using _tunnel = await dial(colony.endpoint, identity, {
    routes: (router) => {
      router.service(AgentService, {
        hello: () => ({ agentId: "web-1" }),
        pull: () => ({ slices: [{ signal: "host", batch: { rows: 1, data } }] }),
      });
    },
  });
  const accepted = await colony.nextTunnel();
  const client = createClient(AgentService, accepted.transport);
  const [reply, ...hellos] = await Promise.all([client.pull({}), ...Array.from({ length: 20 }, () => client.hello({}))]);
  expect(Buffer.compare(reply.slices[0]?.batch?.data ?? new Uint8Array(), data)).toBe(0);
  expect(hellos).toHaveLength(20);
});

test("a tunnel refuses a reply above its limit and stays open", async () => {
  await using colony = await startTestColony({ tunnel: { maxReplyBytes: 10_000 } });
  const identity = await issueIdentity(colony.authority, "web-1");
  await using _tunnel = await dial(colony.endpoint, identity, {
    routes: (router) => {
      router.service(AgentService, { hello: () => ({ agentId: "web-1" }), pull: () => ({ epoch: "x".repeat(20_000) }) });
    },
  });
  const client = createClient(AgentService, (await colony.nextTunnel()).transport);
  await expect(client.pull({}).catch((error: unknown) => Promise.reject(fromConnectError(error)))).rejects.toMatchObject({
    code: "exhausted",
  });
  expect((await client.hello({})).agentId).toBe("web-1");
});

test("an agent's CoralError reaches the colony with its code, other errors stay hidden", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  await using _tunnel = await dial(colony.endpoint, identity, {
    routes: (router) => {
      router.service(AgentService, {
        hello: () => {
          throw new CoralError({ code: "unavailable", message: "Cannot read: the disk is full" });
        },
        pull: () => {
          throw new Error("secret detail");
        },
      });
    },
  });
  const client = createClient(AgentService, (await colony.nextTunnel()).transport);
  const hello = fromConnectError(await client.hello({}).catch((error: unknown) => error));
  expect(hello).toMatchObject({ code: "unavailable", message: "Cannot read: the disk is full" });
  const pull = fromConnectError(await client.pull({}).catch((error: unknown) => error));
  expect(pull.code).toBe("internal");
  expect(pull.message).not.toContain("secret");
});

async function refusedBy(colony: TestColony, identity: Identity): Promise<CoralError> {
  return failure(
    dial(colony.endpoint, identity, { identity: { ...identity, caPem: colony.authority.caPem }, colonyId: colony.authority.colonyId }),
  );
}

test("the colony sends a refused agent the exact reason", async () => {
  await using colony = await startTestColony();
  await using dir = await temporaryDirectory();
  const { colonyId } = colony.authority;
  const impostor = await createAuthority(dir.path, colonyId);
  const foreign = await refusedBy(colony, await issueIdentity(impostor, "web-1"));
  expect(foreign).toMatchObject({ code: "unauthenticated", message: expect.stringContaining("signed by another authority") });

  const expired = await refusedBy(
    colony,
    await issueIdentity(colony.authority, "web-1", { ttlMs: hourMs, nowMs: Date.now() - 2 * hourMs }),
  );
  expect(expired).toMatchObject({ code: "unauthenticated", message: expect.stringContaining("expired on") });

  colony.revoked.add("web-2");
  const revoked = await refusedBy(colony, await issueIdentity(colony.authority, "web-2"));
  expect(revoked).toMatchObject({ code: "unauthenticated", message: expect.stringContaining('agent "web-2" is revoked') });

  expect(colony.server.stats().refused.certificate).toBe(3);
  expect(colony.tunnels).toEqual([]);
  expect(colony.recorded.records.filter((record) => record.message === "tunnel refused")).toHaveLength(3);
});

test("the colony refuses tunnels above its limit", async () => {
  await using colony = await startTestColony({ limits: { maxTunnels: 1 } });
  await using _first = await dial(colony.endpoint, await issueIdentity(colony.authority, "web-1"));
  const error = await failure(dial(colony.endpoint, await issueIdentity(colony.authority, "web-2")));
  expect(error.message).toContain("limit of 1 tunnels");
});

test("the agent refuses a colony of another authority or id before it sends anything", async () => {
  await using colony = await startTestColony();
  await using dir = await temporaryDirectory();
  const { colonyId } = colony.authority;
  const impostor = await createAuthority(dir.path, colonyId);
  const foreign = await failure(dial(colony.endpoint, await issueIdentity(impostor, "web-1")));
  expect(foreign).toMatchObject({ code: "unauthenticated", message: expect.stringContaining("signed by another authority") });
  const wrongId = await failure(dial(colony.endpoint, await issueIdentity(colony.authority, "web-1"), { colonyId: "bank-prod-ffffff" }));
  expect(wrongId.message).toContain(`it is colony "${colonyId}", not "bank-prod-ffffff"`);
  expect(colony.server.stats().refused.certificate).toBe(0);
});

test("dialTunnel() reports a server that refuses the certificate only after the handshake, as TLS 1.3 does", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(`${dir.path}/a`, "shop-test-0a1b2c");
  const foreign = await createAuthority(`${dir.path}/b`, "shop-test-0a1b2c");
  const { certPem, keyPem } = await authority.issueColony({ ttlMs: hourMs });
  const server = createTlsServer({
    cert: certPem,
    key: keyPem,
    ca: authority.caPem,
    requestCert: true,
    rejectUnauthorized: true,
    ALPNProtocols: ["coral-tunnel/1"],
  });
  server.on("tlsClientError", () => undefined).listen(0, "127.0.0.1");
  await once(server, "listening");
  const identity = await issueIdentity(foreign, "web-1");
  const error = await failure(
    dial(`127.0.0.1:${(server.address() as AddressInfo).port}`, identity, { identity: { ...identity, caPem: authority.caPem } }),
  );
  expect(["unauthenticated", "unavailable"]).toContain(error.code);
  server.close();
});

test("both ends detect a partition", async () => {
  const ping = { pingIntervalMs: 100, pingTimeoutMs: 200 };
  await using colony = await startTestColony({ tunnel: ping });
  await using proxy = await startProxy(colony.endpoint);
  await using tunnel = await dial(proxy.endpoint, await issueIdentity(colony.authority, "web-1"), ping);
  const accepted = await colony.nextTunnel();
  const client = createClient(AgentService, accepted.transport);
  await client.hello({});
  proxy.partition();
  const call = client.hello({}).catch((error: unknown) => fromConnectError(error));
  expect((await accepted.closed).reason).toMatch(/^no response for \d+ s$/);
  expect(await tunnel.closed).toMatchObject({ code: "unavailable", message: expect.stringContaining("no response for") });
  expect(await call).toMatchObject({ code: "unavailable" });
  const late = fromConnectError(await client.hello({}).catch((error: unknown) => error));
  expect(late).toMatchObject({ code: "unavailable", message: expect.stringContaining('tunnel to agent "web-1" is closed (no response') });
});

test("a call without a reply fails as unavailable when either end closes the tunnel", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  const endings: ((agentEnd: { abort(): void; tunnel: DialledTunnel }, colonyEnd: Tunnel) => unknown)[] = [
    (agentEnd) => agentEnd.abort(),
    (agentEnd) => agentEnd.tunnel.close("going away"),
    (_agentEnd, colonyEnd) => colonyEnd.close("let go"),
    () => colony.server.close(),
  ];
  for (const end of endings) {
    const controller = new AbortController();
    let called: () => void = () => undefined;
    const pulled = new Promise<void>((resolve) => {
      called = resolve;
    });
    await using tunnel = await dial(colony.endpoint, identity, {
      signal: controller.signal,
      routes: (router) => {
        router.service(AgentService, {
          pull: () => {
            called();
            return new Promise<never>(() => undefined);
          },
        });
      },
    });
    const accepted = await colony.nextTunnel();
    const call = createClient(AgentService, accepted.transport).pull({}).catch(fromConnectError);
    await pulled;
    end({ abort: () => controller.abort(), tunnel }, accepted);
    expect(await call).toMatchObject({ code: "unavailable" });
    await tunnel.closed;
  }
});

test("a caller that aborts a call gets `cancelled`, and the tunnel stays open", async () => {
  await using colony = await startTestColony();
  await using _tunnel = await dial(colony.endpoint, await issueIdentity(colony.authority, "web-1"), {
    routes: (router) => {
      router.service(AgentService, { hello: () => ({ agentId: "web-1" }), pull: () => new Promise<never>(() => undefined) });
    },
  });
  const client = createClient(AgentService, (await colony.nextTunnel()).transport);
  const controller = new AbortController();
  const call = client.pull({}, { signal: controller.signal }).catch(fromConnectError);
  controller.abort();
  expect(await call).toMatchObject({ code: "cancelled" });
  expect(await client.pull({}, { timeoutMs: 30 }).catch(fromConnectError)).toMatchObject({ code: "timeout" });
  expect((await client.hello({})).agentId).toBe("web-1");
});

test("a stream ends at the agent when its caller aborts, and at the caller when the tunnel closes", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  let ended = 0;
  await using tunnel = await dial(colony.endpoint, identity, {
    routes: (router) =>
      router.service(AgentService, {
        async *capture(_request, { signal }) {
          signal.addEventListener("abort", () => ended++);
          yield { event: { case: "started", value: { processes: 1 } } };
          await once(signal, "abort");
        },
      }),
  });
  const accepted = await colony.nextTunnel();
  const client = createClient(AgentService, accepted.transport);
  const caller = new AbortController();
  const aborted = (async () => {
    for await (const _message of client.capture({}, { signal: caller.signal })) caller.abort();
  })();
  expect(fromConnectError(await aborted.catch((error: unknown) => error))).toMatchObject({ code: "cancelled" });
  await vi.waitFor(() => expect(ended).toBe(1));
  const cut = (async () => {
    for await (const _message of client.capture({})) await tunnel.close("gone");
  })();
  expect(fromConnectError(await cut.catch((error: unknown) => error))).toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("closed by the agent: gone"),
  });
});

test("an idle tunnel stays open over many ping intervals", async () => {
  const ping = { pingIntervalMs: 20, pingTimeoutMs: 2_000 };
  await using colony = await startTestColony({ tunnel: ping });
  await using tunnel = await dial(colony.endpoint, await issueIdentity(colony.authority, "web-1"), ping);
  const accepted = await colony.nextTunnel();
  const waited = new Promise((resolve) => setTimeout(resolve, 300, "still open"));
  expect(await Promise.race([accepted.closed, tunnel.closed, waited])).toBe("still open");
  expect((await createClient(AgentService, accepted.transport).hello({})).agentId).toBe("web-1");
});

test("the colony's close() sends the agent the reason, also at shutdown", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  await using replaced = await dial(colony.endpoint, identity);
  const accepted = await colony.nextTunnel();
  await accepted.close("replaced by a newer tunnel");
  await accepted.close("twice");
  expect((await accepted.closed).reason).toBe("closed by the colony: replaced by a newer tunnel");
  expect(await replaced.closed).toMatchObject({ code: "unavailable", message: expect.stringContaining("replaced by a newer tunnel") });

  await using cut = await dial(colony.endpoint, identity);
  await colony.nextTunnel();
  await colony.server.close();
  expect((await cut.closed).code).toBe("unavailable");
});

test("a tunnel closes when its certificate expires", async () => {
  await using colony = await startTestColony();
  // Certificate times have a resolution of seconds.
  const nowMs = Date.now();
  await using tunnel = await dial(colony.endpoint, await issueIdentity(colony.authority, "web-1", { ttlMs: 2_000, nowMs }));
  const accepted = await colony.nextTunnel();
  expect((await accepted.closed).reason).toContain("certificate has expired");
  expect((await tunnel.closed).message).toContain("certificate has expired");
});

test("dialTunnel() stops when its signal aborts, before and after the tunnel is open", async () => {
  await using colony = await startTestColony();
  const identity = await issueIdentity(colony.authority, "web-1");
  expect((await failure(dial(colony.endpoint, identity, { signal: AbortSignal.abort() }))).code).toBe("cancelled");
  const controller = new AbortController();
  await using tunnel = await dial(colony.endpoint, identity, { signal: controller.signal });
  const accepted = await colony.nextTunnel();
  controller.abort();
  expect((await tunnel.closed).code).toBe("cancelled");
  await accepted.closed;
  await expect.poll(() => colony.server.stats().tunnels).toBe(0);
});
