import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { chmod, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hourMs, temporaryDirectory } from "../colony.fixture.ts";
import { createAuthority, openAuthority } from "./authority.ts";
import { fingerprintOf } from "./certificates.ts";
import { generateKey } from "./identity.ts";

const colonyId = "shop-test-0a1b2c";

test("createAuthority() makes a private key and a CA certificate that openAuthority() reads back", async () => {
  await using dir = await temporaryDirectory();
  const made = await createAuthority(join(dir.path, "ca"), colonyId);
  const opened = await openAuthority(join(dir.path, "ca"), colonyId);
  expect(opened.fingerprint).toBe(made.fingerprint);
  const certificate = new X509Certificate(await readFile(join(dir.path, "ca", "ca.crt")));
  expect(certificate.ca).toBe(true);
  expect(certificate.checkIssued(certificate)).toBe(true);
  expect(fingerprintOf(certificate.raw)).toBe(made.fingerprint);
  expect(made.fingerprint).toMatch(/^[0-9a-f]{64}$/);
  expect((await stat(join(dir.path, "ca", "ca.key"))).mode & 0o777).toBe(0o600);
  expect((await stat(join(dir.path, "ca"))).mode & 0o777).toBe(0o700);
  const lifeYears = (Date.parse(certificate.validTo) - Date.now()) / (365 * 24 * hourMs);
  expect(lifeYears).toBeGreaterThan(9.9);
});

test("createAuthority() refuses to overwrite an authority", async () => {
  await using dir = await temporaryDirectory();
  await createAuthority(dir.path, colonyId);
  const before = await readFile(join(dir.path, "ca.key"), "utf8");
  await expect(createAuthority(dir.path, colonyId)).rejects.toMatchObject({ code: "already-exists" });
  expect(await readFile(join(dir.path, "ca.key"), "utf8")).toBe(before);
});

test("createAuthority() refuses an id that would change the meaning of a certificate", async () => {
  await using dir = await temporaryDirectory();
  for (const id of ["", "a/b", "a b", "a,URI:x", "../x", "ä", "x".repeat(129)]) {
    await expect(createAuthority(dir.path, id)).rejects.toMatchObject({ code: "invalid" });
  }
});

test("issueAgent() makes a backdated client certificate with the agent's SPIFFE id", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(dir.path, colonyId);
  const nowMs = Date.now();
  const { publicKeyDer } = generateKey();
  const issued = await authority.issueAgent({ agentId: "web-1", publicKeyDer, ttlMs: 24 * hourMs, nowMs });
  const leaf = new X509Certificate(issued.certPem);
  const ca = new X509Certificate(authority.caPem);
  expect(leaf.verify(ca.publicKey)).toBe(true);
  expect(leaf.checkIssued(ca)).toBe(true);
  expect(leaf.ca).toBe(false);
  expect(leaf.subjectAltName).toBe(`URI:spiffe://${colonyId}/agent/web-1`);
  expect(leaf.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
  expect(nowMs - Date.parse(leaf.validFrom)).toBeGreaterThanOrEqual(24 * hourMs);
  expect(Math.abs(Date.parse(leaf.validTo) - (nowMs + 24 * hourMs))).toBeLessThan(1_000);
  expect(issued.notAfterMs).toBe(Date.parse(leaf.validTo));
  expect(leaf.publicKey.export({ type: "spki", format: "der" })).toEqual(publicKeyDer);
});

test("issueAgent() gives each certificate its own random serial", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(dir.path, colonyId);
  const { publicKeyDer } = generateKey();
  const serials = new Set<string>();
  for (let i = 0; i < 8; i++) {
    const { serial, certPem } = await authority.issueAgent({ agentId: "a", publicKeyDer, ttlMs: hourMs, nowMs: Date.now() });
    expect(new X509Certificate(certPem).serialNumber.toLowerCase()).toBe(serial);
    expect(serial).toHaveLength(32);
    serials.add(serial);
  }
  expect(serials.size).toBe(8);
});

test("issueAgent() refuses keys that are not EC P-256, and ids with a slash", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(dir.path, colonyId);
  const spki = { type: "spki", format: "der" } as const;
  const p384 = generateKeyPairSync("ec", { namedCurve: "P-384" }).publicKey.export(spki);
  const ed25519 = generateKeyPairSync("ed25519").publicKey.export(spki);
  const garbage = Buffer.from("no key at all");
  for (const publicKeyDer of [p384, ed25519, garbage, Buffer.alloc(0)]) {
    const issue = authority.issueAgent({ agentId: "a", publicKeyDer, ttlMs: hourMs, nowMs: Date.now() });
    await expect(issue).rejects.toMatchObject({ code: "invalid", message: expect.stringContaining("EC P-256") });
  }
  const { publicKeyDer } = generateKey();
  await expect(authority.issueAgent({ agentId: "a/b", publicKeyDer, ttlMs: hourMs, nowMs: 0 })).rejects.toMatchObject({ code: "invalid" });
});

test("issueColony() makes a server certificate with its own key and the CA behind it", async () => {
  await using dir = await temporaryDirectory();
  const authority = await createAuthority(dir.path, colonyId);
  const issued = await authority.issueColony({ ttlMs: hourMs, hosts: ["localhost", "10.0.0.1"] });
  const leaf = new X509Certificate(issued.certPem);
  expect(leaf.subjectAltName).toBe(`URI:spiffe://${colonyId}/colony, DNS:localhost, IP Address:10.0.0.1`);
  expect(leaf.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
  expect(issued.certPem.match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
  expect(issued.certPem).toContain(authority.caPem);
});

test("openAuthority() reports what is wrong with a file", async () => {
  await using dir = await temporaryDirectory();
  await expect(openAuthority(dir.path, colonyId)).rejects.toMatchObject({
    code: "not-found",
    message: expect.stringContaining("coral init"),
  });
  await createAuthority(dir.path, colonyId);
  await expect(openAuthority(dir.path, "other-test-ffffff")).rejects.toMatchObject({
    code: "invalid",
    message: expect.stringContaining(colonyId),
  });

  await chmod(join(dir.path, "ca.key"), 0o644);
  await expect(openAuthority(dir.path, colonyId)).rejects.toMatchObject({
    code: "not-permitted",
    message: expect.stringContaining("0644"),
  });
  await chmod(join(dir.path, "ca.key"), 0o600);

  const key = await readFile(join(dir.path, "ca.key"), "utf8");
  await writeFile(join(dir.path, "ca.key"), generateKey().keyPem);
  await expect(openAuthority(dir.path, colonyId)).rejects.toMatchObject({
    code: "corrupt",
    message: expect.stringContaining("not the key of"),
  });
  await writeFile(join(dir.path, "ca.key"), key.slice(0, 60));
  await expect(openAuthority(dir.path, colonyId)).rejects.toMatchObject({ code: "corrupt", message: expect.stringContaining("ca.key") });
  await writeFile(join(dir.path, "ca.key"), key);
  await writeFile(join(dir.path, "ca.crt"), "");
  await expect(openAuthority(dir.path, colonyId)).rejects.toMatchObject({ code: "corrupt", message: expect.stringContaining("ca.crt") });
});
