import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { expect, test } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { hourMs, issueIdentity, startTestColony, type TestColony, temporaryDirectory } from "../colony.fixture.ts";
import { createAuthority } from "../trust/authority.ts";
import { checkIdentity, createKey, generateKey, saveIdentity } from "../trust/identity.ts";
import type { Token } from "../trust/token.ts";
import { joinColony, registerAgent, renewCertificate } from "./colony-client.ts";

const signal = new AbortController().signal;

function tokenFor(colony: TestColony, change: Partial<Token> = {}): Token {
  const { colonyId, fingerprint } = colony.authority;
  return {
    kind: "join",
    endpoints: [colony.endpoint],
    colonyId,
    caFingerprint: fingerprint,
    tokenId: "t",
    secret: "open sesame",
    ...change,
  };
}

async function failureOf(promise: Promise<unknown>): Promise<CoralError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof CoralError) return error;
  throw new Error(`no CoralError: ${String(error)}`);
}

test("an agent joins with a token, registers, renews with a new key, and registers again", async () => {
  await using colony = await startTestColony();
  const { colonyId } = colony.authority;
  const directory = join(colony.directory, "identity");
  const key = await createKey(directory);
  const joined = await joinColony({ token: tokenFor(colony), agentId: "web-1", key, signal });
  expect(joined.endpoint).toBe(colony.endpoint);
  const identity = await saveIdentity(directory, { ...joined, keyPem: key.keyPem });
  expect(await checkIdentity(directory, { colonyId, nowMs: Date.now() })).toMatchObject({ kind: "usable" });

  const { endpoint } = joined;
  const registered = await registerAgent({ endpoint, identity, signal, request: { colonyId, agentId: "web-1" } });
  expect(registered).toMatchObject({ sessionId: "session of web-1", colonyName: colonyId });

  const nextKey = generateKey();
  const renewed = await saveIdentity(directory, {
    ...(await renewCertificate({ endpoint, identity, key: nextKey, signal })),
    keyPem: nextKey.keyPem,
  });
  expect(renewed.agentId).toBe("web-1");
  expect((await registerAgent({ endpoint, identity: renewed, signal, request: {} })).sessionId).toBe("session of web-1");

  // No connection is left open.
  await expect.poll(() => colony.server.stats().requestConnections).toBe(0);
});

test("joinColony() refuses a colony whose authority is not the token's, without sending the secret", async () => {
  await using colony = await startTestColony();
  const key = generateKey();
  const pinned = await failureOf(joinColony({ token: tokenFor(colony, { caFingerprint: "00".repeat(32) }), agentId: "a", key, signal }));
  expect(pinned).toMatchObject({ code: "unauthenticated", message: expect.stringContaining("other CA fingerprint") });
  const named = await failureOf(joinColony({ token: tokenFor(colony, { colonyId: "bank-prod-ffffff" }), agentId: "a", key, signal }));
  expect(named).toMatchObject({ code: "unauthenticated", message: expect.stringContaining('not "bank-prod-ffffff"') });

  await using dir = await temporaryDirectory();
  const thief = await (await createAuthority(dir.path, colony.authority.colonyId)).issueColony({ ttlMs: hourMs });
  const heard: Buffer[] = [];
  const server = createTlsServer({ cert: thief.certPem, key: thief.keyPem, ALPNProtocols: ["h2"] }, (socket) => {
    socket.on("error", () => undefined).on("data", (data: Buffer) => heard.push(data));
  });
  server.on("tlsClientError", () => undefined).listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoints = [`127.0.0.1:${(server.address() as AddressInfo).port}`];
  expect((await failureOf(joinColony({ token: tokenFor(colony, { endpoints }), agentId: "a", key, signal }))).code).toBe("unauthenticated");
  expect(heard).toEqual([]);
  server.close();
});

test("joinColony() tries the next endpoint only when the first cannot be reached", async () => {
  await using colony = await startTestColony();
  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const dead = `127.0.0.1:${(gone.address() as AddressInfo).port}`;
  await new Promise((resolve) => gone.close(resolve));
  const key = generateKey();
  const joined = await joinColony({ token: tokenFor(colony, { endpoints: [dead, colony.endpoint] }), agentId: "a", key, signal });
  expect(joined.endpoint).toBe(colony.endpoint);
  const allDead = await failureOf(joinColony({ token: tokenFor(colony, { endpoints: [dead] }), agentId: "a", key, signal }));
  expect(allDead).toMatchObject({ code: "unavailable", message: expect.stringContaining(dead) });
});

test("registerAgent() reports why the colony refused, and why it could not be reached", async () => {
  await using colony = await startTestColony();
  const { endpoint, authority } = colony;
  colony.revoked.add("web-1");
  const revoked = await failureOf(registerAgent({ endpoint, identity: await issueIdentity(authority, "web-1"), signal, request: {} }));
  expect(revoked).toMatchObject({ code: "unauthenticated", message: expect.stringContaining("is revoked") });

  await using dir = await temporaryDirectory();
  const foreign = await issueIdentity(await createAuthority(dir.path, authority.colonyId), "web-2");
  const wrongColony = await failureOf(registerAgent({ endpoint, identity: foreign, signal, request: {} }));
  expect(wrongColony.message).toContain("signed by another authority");
  const refused = await failureOf(registerAgent({ endpoint, identity: { ...foreign, caPem: authority.caPem }, signal, request: {} }));
  expect(refused).toMatchObject({ code: "unauthenticated", message: expect.stringContaining("signed by another authority") });

  const aborted = registerAgent({ endpoint, identity: await issueIdentity(authority, "web-3"), signal: AbortSignal.abort(), request: {} });
  expect((await failureOf(aborted)).code).toBe("cancelled");
});

test("registerAgent() times out on a colony that accepts and then stays silent", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(dir.path, "shop-test-0a1b2c");
  const { certPem, keyPem } = await authority.issueColony({ ttlMs: hourMs });
  const server = createTlsServer({ cert: certPem, key: keyPem, ALPNProtocols: ["h2"] }, (socket) => socket.on("error", () => undefined));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const identity = await issueIdentity(authority, "web-1");
  const error = await failureOf(registerAgent({ endpoint, identity, signal, request: {}, timeoutMs: 200 }));
  expect(error).toMatchObject({ code: "timeout", message: expect.stringContaining("200 ms") });
  server.close();
});
