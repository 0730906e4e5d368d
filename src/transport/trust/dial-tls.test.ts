import { once } from "node:events";
import { type AddressInfo, createServer as createNetServer, type Server } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import { expect, test } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { hourMs, issueIdentity, startTestColony, temporaryDirectory } from "../colony.fixture.ts";
import { createAuthority } from "./authority.ts";
import { type DialTlsOptions, dialTls } from "./dial-tls.ts";

const colonyId = "shop-test-0a1b2c";

async function serve(server: Server, address = "127.0.0.1"): Promise<AsyncDisposable & { endpoint: string }> {
  server.listen(0, address);
  await once(server, "listening");
  return {
    endpoint: `${address}:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.close();
    },
  };
}

function tlsServer(options: TlsOptions): Server {
  const server = createTlsServer({ ALPNProtocols: ["h2"], ...options }, (socket) => socket.on("error", () => undefined).end());
  server.on("tlsClientError", () => undefined);
  return server;
}

async function failure(options: Partial<DialTlsOptions> & Pick<DialTlsOptions, "endpoint" | "trust">): Promise<CoralError> {
  try {
    const socket = await dialTls({ alpn: "h2", timeoutMs: 20_000, ...options });
    socket.destroy();
  } catch (error) {
    if (error instanceof CoralError) return error;
    throw error;
  }
  throw new Error("was accepted");
}

test("dialTls() connects to the colony by authority and by fingerprint", async () => {
  await using colony = await startTestColony();
  const { caPem, fingerprint } = colony.authority;
  const byAuthority = await dialTls({ endpoint: colony.endpoint, trust: { kind: "authority", caPem, colonyId }, alpn: "h2" });
  expect(byAuthority.authorized).toBe(true);
  expect(byAuthority.getProtocol()).toBe("TLSv1.3");
  byAuthority.destroy();
  const byFingerprint = await dialTls({
    endpoint: colony.endpoint,
    trust: { kind: "fingerprint", caFingerprint: fingerprint },
    alpn: "http/1.1",
  });
  byFingerprint.destroy();
});

test("dialTls() accepts the colony at an address that is not in its certificate", async () => {
  await using dir = await temporaryDirectory();
  const ours = await createAuthority(dir.path, colonyId);
  const { caPem, fingerprint } = ours;
  const { certPem: cert, keyPem: key } = await ours.issueColony({ ttlMs: hourMs });
  await using server = await serve(tlsServer({ cert: `${cert}${caPem}`, key }), "127.0.0.99");
  for (const trust of [
    { kind: "authority", caPem, colonyId },
    { kind: "fingerprint", caFingerprint: fingerprint },
  ] as const) {
    const socket = await dialTls({ endpoint: server.endpoint, trust, alpn: "h2" });
    socket.destroy();
  }
});

test("dialTls() refuses a server of another authority, of another colony, and an agent that impersonates a colony", async () => {
  await using dir = await temporaryDirectory();
  const ours = await createAuthority(join(dir.path, "a"), colonyId);
  const impostor = await createAuthority(join(dir.path, "b"), colonyId);
  const trust = { kind: "authority", caPem: ours.caPem, colonyId } as const;
  const pin = { kind: "fingerprint", caFingerprint: ours.fingerprint, colonyId } as const;

  const foreign = await impostor.issueColony({ ttlMs: hourMs });
  await using foreignServer = await serve(tlsServer({ cert: foreign.certPem, key: foreign.keyPem }));
  const wrongAuthority = await failure({ endpoint: foreignServer.endpoint, trust });
  expect(wrongAuthority.code).toBe("unauthenticated");
  expect(wrongAuthority.message).toContain(`signed by another authority "coral colony ${colonyId}"`);
  expect((await failure({ endpoint: foreignServer.endpoint, trust: pin })).message).toContain("other CA fingerprint");

  // The impostor also sends our (public) CA certificate, in case a matching hash in the chain is enough.
  const mixed = foreign.certPem.slice(0, foreign.certPem.indexOf("-----END CERTIFICATE-----")) + `-----END CERTIFICATE-----\n${ours.caPem}`;
  await using mixedServer = await serve(tlsServer({ cert: mixed, key: foreign.keyPem }));
  expect((await failure({ endpoint: mixedServer.endpoint, trust: pin })).code).toBe("unauthenticated");

  const good = await ours.issueColony({ ttlMs: hourMs });
  await using goodServer = await serve(tlsServer({ cert: good.certPem, key: good.keyPem }));
  const wrongColony = await failure({ endpoint: goodServer.endpoint, trust: { ...trust, colonyId: "bank-prod-ffffff" } });
  expect(wrongColony.message).toContain(`it is colony "${colonyId}", not "bank-prod-ffffff"`);

  const agent = await issueIdentity(ours, "web-1");
  await using agentServer = await serve(tlsServer({ cert: agent.certPem, key: agent.keyPem }));
  expect((await failure({ endpoint: agentServer.endpoint, trust })).message).toContain("not a colony's");
  expect((await failure({ endpoint: agentServer.endpoint, trust: pin })).message).toContain("not a colony's");

  const old = await ours.issueColony({ ttlMs: hourMs, nowMs: Date.now() - 2 * hourMs });
  await using oldServer = await serve(tlsServer({ cert: old.certPem, key: old.keyPem }));
  expect((await failure({ endpoint: oldServer.endpoint, trust })).message).toContain("expired on");
  expect((await failure({ endpoint: oldServer.endpoint, trust: pin })).message).toContain("expired on");
});

test("dialTls() reports why it cannot connect", async () => {
  await using dir = await temporaryDirectory();
  const ours = await createAuthority(dir.path, colonyId);
  const trust = { kind: "authority", caPem: ours.caPem, colonyId } as const;
  const { certPem: cert, keyPem: key } = await ours.issueColony({ ttlMs: hourMs });

  const closed = await serve(createNetServer());
  await closed[Symbol.asyncDispose]();
  const refused = await failure({ endpoint: closed.endpoint, trust });
  expect(refused).toMatchObject({ code: "unavailable", message: expect.stringContaining("nothing is listening there") });
  expect(refused.message).toContain(closed.endpoint);

  await using plain = await serve(createNetServer((socket) => socket.on("error", () => undefined).end("HTTP/1.1 400 Bad Request\r\n\r\n")));
  expect(await failure({ endpoint: plain.endpoint, trust })).toMatchObject({
    code: "unsupported",
    message: expect.stringContaining("does not use TLS"),
  });

  await using old = await serve(tlsServer({ cert, key, maxVersion: "TLSv1.2" }));
  expect(await failure({ endpoint: old.endpoint, trust })).toMatchObject({
    code: "unsupported",
    message: expect.stringContaining("TLS 1.3"),
  });

  await using web = await serve(tlsServer({ cert, key, ALPNProtocols: ["http/1.1"] }));
  expect(await failure({ endpoint: web.endpoint, trust })).toMatchObject({ code: "unsupported" });

  await using mute = await serve(createNetServer((socket) => socket.on("error", () => undefined)));
  expect(await failure({ endpoint: mute.endpoint, trust, timeoutMs: 50 })).toMatchObject({ code: "timeout" });
  expect(await failure({ endpoint: mute.endpoint, trust, signal: AbortSignal.timeout(20) })).toMatchObject({ code: "cancelled" });
  expect(await failure({ endpoint: mute.endpoint, trust, signal: AbortSignal.abort() })).toMatchObject({ code: "cancelled" });

  await using hangsUp = await serve(createNetServer((socket) => socket.destroy()));
  expect(await failure({ endpoint: hangsUp.endpoint, trust })).toMatchObject({
    code: "unavailable",
    message: expect.stringMatching(/reset|closed/),
  });

  expect(await failure({ endpoint: "no-such-host.invalid:9000", trust })).toMatchObject({ code: "unavailable" });
  expect(await failure({ endpoint: "nonsense", trust })).toMatchObject({ code: "invalid" });
});
