import { generateKeyPairSync } from "node:crypto";
import { readdir, readFile, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hourMs, issueIdentity, temporaryDirectory } from "../colony.fixture.ts";
import { createAuthority } from "./authority.ts";
import { checkIdentity, createKey, generateKey, isProofValid, loadIdentity, proofOf, saveIdentity } from "./identity.ts";

const colonyId = "shop-test-0a1b2c";

test("createKey() stores a private key once and returns the same one again", async () => {
  await using dir = await temporaryDirectory();
  const directory = join(dir.path, "identity");
  const first = await createKey(directory);
  const second = await createKey(directory);
  expect(second.keyPem).toBe(first.keyPem);
  expect(second.publicKeyDer).toEqual(first.publicKeyDer);
  expect((await stat(join(directory, "key.pem"))).mode & 0o777).toBe(0o600);
  expect((await stat(directory)).mode & 0o777).toBe(0o700);
});

test("isProofValid() accepts the holder's proof and nothing else", () => {
  const key = generateKey();
  const other = generateKey();
  const input = { colonyId, agentId: "web-1", publicKeyDer: key.publicKeyDer };
  const proof = proofOf(key.keyPem, input);
  expect(isProofValid(proof, input)).toBe(true);
  expect(isProofValid(proof, { ...input, agentId: "web-2" })).toBe(false);
  expect(isProofValid(proof, { ...input, colonyId: "x" })).toBe(false);
  expect(isProofValid(proof, { ...input, publicKeyDer: other.publicKeyDer })).toBe(false);
  expect(isProofValid(proofOf(other.keyPem, input), input)).toBe(false);
  expect(isProofValid(Buffer.alloc(0), input)).toBe(false);
  expect(isProofValid(proof, { ...input, publicKeyDer: Buffer.from("garbage") })).toBe(false);
  const rsa = generateKeyPairSync("rsa", { modulusLength: 1024 });
  const rsaInput = { ...input, publicKeyDer: rsa.publicKey.export({ type: "spki", format: "der" }) };
  expect(isProofValid(proofOf(rsa.privateKey.export({ type: "pkcs8", format: "pem" }).toString(), rsaInput), rsaInput)).toBe(false);
});

test("saveIdentity() and loadIdentity() keep names and times, and renewal is due at two thirds of the life", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(join(dir.path, "ca"), colonyId);
  const nowMs = Date.now();
  const issued = await issueIdentity(authority, "web-1", { ttlMs: 24 * hourMs, nowMs });
  const directory = join(dir.path, "identity");
  expect(await loadIdentity(directory)).toBeUndefined();
  await createKey(directory);
  expect(await loadIdentity(directory)).toBeUndefined();
  await saveIdentity(directory, issued);
  const loaded = await loadIdentity(directory);
  expect(loaded).toMatchObject({ agentId: "web-1", colonyId, keyPem: issued.keyPem });
  expect(Math.abs((loaded?.renewAtMs ?? 0) - (nowMs + 16 * hourMs))).toBeLessThan(2_000);
  expect((await readdir(directory)).sort()).toEqual(["ca.pem", "cert.pem", "key.pem"]);
  for (const file of await readdir(directory)) expect((await stat(join(directory, file))).mode & 0o777).toBe(0o600);
});

test("loadIdentity() completes an interrupted key change, at either point", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(join(dir.path, "ca"), colonyId);
  const directory = join(dir.path, "identity");
  const old = await issueIdentity(authority, "web-1");
  const renewed = await issueIdentity(authority, "web-1");
  await saveIdentity(directory, old);

  // Interrupted before the certificate: the old pair is used.
  await writeFile(join(directory, "key.next.pem"), renewed.keyPem);
  expect((await loadIdentity(directory))?.keyPem).toBe(old.keyPem);
  expect(await checkIdentity(directory, { colonyId, nowMs: Date.now() })).toMatchObject({ kind: "usable" });

  // Interrupted after it: the new pair is used.
  await writeFile(join(directory, "cert.pem"), renewed.certPem);
  expect((await loadIdentity(directory))?.keyPem).toBe(renewed.keyPem);
  expect(await readFile(join(directory, "key.pem"), "utf8")).toBe(renewed.keyPem);
  expect(await readdir(directory)).not.toContain("key.next.pem");
  expect(await checkIdentity(directory, { colonyId, nowMs: Date.now() })).toMatchObject({ kind: "usable" });
});

test("checkIdentity() reports each reason for which an identity is unusable", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(join(dir.path, "ca"), colonyId);
  const foreign = await createAuthority(join(dir.path, "ca2"), colonyId);
  const directory = join(dir.path, "identity");
  const nowMs = Date.now();
  const problemOf = async (expected: { colonyId?: string; nowMs: number } = { colonyId, nowMs }) => checkIdentity(directory, expected);

  expect(await problemOf()).toMatchObject({ problem: "missing", message: expect.stringContaining("join token") });
  const identity = await issueIdentity(authority, "web-1", { ttlMs: hourMs, nowMs });
  await saveIdentity(directory, identity);
  expect(await problemOf()).toMatchObject({ kind: "usable" });
  expect(await problemOf({ nowMs })).toMatchObject({ kind: "usable" });
  expect(await problemOf({ colonyId: "bank-prod-000000", nowMs })).toMatchObject({
    problem: "wrong-colony",
    message: expect.stringContaining(`for colony "${colonyId}", not "bank-prod-000000"`),
  });
  expect(await problemOf({ nowMs: nowMs + 2 * hourMs })).toMatchObject({
    problem: "expired",
    message: expect.stringContaining("expired on"),
  });
  expect(await problemOf({ nowMs: nowMs - 25 * hourMs })).toMatchObject({
    problem: "not-yet-valid",
    message: expect.stringContaining("clock"),
  });
  // Clocks may be set back by an hour.
  expect(await problemOf({ nowMs: nowMs - hourMs })).toMatchObject({ kind: "usable" });

  await writeFile(join(directory, "key.pem"), generateKey().keyPem);
  expect(await problemOf()).toMatchObject({ problem: "key-mismatch" });
  await saveIdentity(directory, { ...identity, caPem: foreign.caPem });
  expect(await problemOf()).toMatchObject({ problem: "other-authority" });
  await saveIdentity(directory, identity);
  for (const [file, content] of [
    ["cert.pem", "garbage"],
    ["ca.pem", ""],
    ["key.pem", identity.keyPem.slice(0, 40)],
  ] as const) {
    await writeFile(join(directory, file), content);
    expect(await problemOf()).toMatchObject({ problem: "damaged", message: expect.stringContaining(file) });
    await saveIdentity(directory, identity);
  }
  await unlink(join(directory, "ca.pem"));
  expect(await problemOf()).toMatchObject({ problem: "damaged", message: expect.stringContaining("ca.pem") });
});
