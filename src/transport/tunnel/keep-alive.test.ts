import { once } from "node:events";
import { type ClientHttp2Session, connect, createServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { startKeepAlive } from "./keep-alive.ts";

async function sessionPair(): Promise<AsyncDisposable & { near: ClientHttp2Session; far: ServerHttp2Session }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const near = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [far] = (await once(server, "session")) as [ServerHttp2Session];
  await once(near, "remoteSettings");
  return {
    near,
    far,
    [Symbol.asyncDispose]: async () => {
      near.destroy();
      far.destroy();
      server.close();
    },
  };
}

test("startKeepAlive() pings after silence, but not while the peer sends", async () => {
  await using pair = await sessionPair();
  let pings = 0;
  pair.far.on("ping", () => pings++);
  const keepAlive = startKeepAlive(pair.near, { intervalMs: 1_000, timeoutMs: 20_000, onDead: () => expect.unreachable() });
  const busy = setInterval(() => keepAlive.touch(), 10);
  // Longer than the interval, which is longer than the scheduling delays of a busy machine.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(pings).toBe(0);
  clearInterval(busy);
  await expect.poll(() => pings).toBeGreaterThanOrEqual(2);
  keepAlive.stop();
});

test("startKeepAlive() reports a peer that does not reply to pings, once", async () => {
  await using pair = await sessionPair();
  // Nothing reaches the peer, as in a partition.
  Object.defineProperty(pair.near, "ping", { value: () => true });
  let deaths = 0;
  const silentMs = await new Promise<number>((resolve) => {
    startKeepAlive(pair.near, {
      intervalMs: 30,
      timeoutMs: 50,
      onDead: (ms) => {
        deaths++;
        resolve(ms);
      },
    });
  });
  expect(silentMs).toBeGreaterThanOrEqual(79);
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(deaths).toBe(1);
});

test("startKeepAlive() treats received bytes as a sign of life while the reply to its ping is queued behind them", async () => {
  await using pair = await sessionPair();
  let pings = 0;
  Object.defineProperty(pair.near, "ping", { value: () => pings++ });
  const trickle = setInterval(() => pair.far.ping(() => undefined), 5);
  const keepAlive = startKeepAlive(pair.near, { intervalMs: 10, timeoutMs: 400, onDead: () => expect.unreachable() });
  await expect.poll(() => pings, { timeout: 20_000 }).toBeGreaterThanOrEqual(2);
  clearInterval(trickle);
  keepAlive.stop();
});

test("startKeepAlive() does not report the peer after a stall of its own process", async () => {
  await using pair = await sessionPair();
  let stalls = 0;
  let deaths = 0;
  // The ping has arrived. While this process is blocked, the deadline passes with the reply unread.
  pair.far.on("ping", () => {
    stalls++;
    const until = performance.now() + 150;
    while (performance.now() < until);
  });
  const keepAlive = startKeepAlive(pair.near, { intervalMs: 10, timeoutMs: 50, onDead: () => deaths++ });
  await expect.poll(() => stalls).toBeGreaterThanOrEqual(4);
  keepAlive.stop();
  expect(deaths).toBe(0);
});

test("startKeepAlive() does not ping a destroyed session before its close event", async () => {
  await using pair = await sessionPair();
  // The event comes after the interval, as it may on a busy machine.
  const close = new Promise((resolve) => setTimeout(resolve, 50));
  const session = Object.create(pair.near, {
    destroyed: { value: true },
    ping: { value: () => expect.unreachable("pinged a destroyed session") },
  }) as ClientHttp2Session;
  startKeepAlive(session, { intervalMs: 1, timeoutMs: 1, onDead: () => expect.unreachable() });
  await close;
});
