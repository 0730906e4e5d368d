/** The golden proof of possession that agents sign to join and renew, and golden identity files of an agent. */

import { createPrivateKey, createPublicKey, verify } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryDirectory } from "../colony.fixture.ts";
import { goldenIdentity, goldenIssuedMs } from "./golden-identity.fixture.ts";
import { checkIdentity, createKey, isProofValid, proofOf, saveIdentity } from "./identity.ts";

const { colonyId, agentId, agentKey, agentCertificate, caCertificate } = goldenIdentity;
const publicKey = createPublicKey(createPrivateKey(agentKey));
const input = { colonyId, agentId, publicKeyDer: publicKey.export({ type: "spki", format: "der" }) };
const dayMs = 86_400_000;

/** The text that colony.proto specifies for JoinRequest.proof. */
const signedText = `coral-join
shop-prod-0a1b2c
web-1-0badcafe
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEhvCkOxloFSbMl8bbV6h1z1KptaBEina1fbyZOoeiXCm6vnsUMXvTGPD4Rs09d70N727CQ/v6E/alX0DcdBQVFQ==`;

describe("the proof of possession", () => {
  it("is an ECDSA-SHA256 signature over the golden text", () => {
    expect(verify("sha256", Buffer.from(signedText), publicKey, proofOf(agentKey, input))).toBe(true);
  });

  it("of a released agent stays valid", () => {
    expect(isProofValid(Buffer.from(goldenIdentity.proof, "base64"), input)).toBe(true);
  });
});

describe("the identity files of an agent", () => {
  const files = { "key.pem": agentKey, "cert.pem": agentCertificate, "ca.pem": caCertificate };

  it("are written under their golden names, as PEM", async () => {
    await using dir = await temporaryDirectory();
    await saveIdentity(dir.path, { keyPem: agentKey, certPem: agentCertificate, caPem: caCertificate });
    const written = (await readdir(dir.path)).map(async (name) => [name, await readFile(join(dir.path, name), "utf8")]);
    expect(Object.fromEntries(await Promise.all(written))).toEqual(files);
  });

  it("are read back with their names and times", async () => {
    await using dir = await temporaryDirectory();
    await mkdir(dir.path, { recursive: true });
    for (const [name, text] of Object.entries(files)) await writeFile(join(dir.path, name), text);
    expect(await checkIdentity(dir.path, { colonyId, nowMs: goldenIssuedMs })).toEqual({
      kind: "usable",
      identity: {
        agentId,
        colonyId,
        keyPem: agentKey,
        certPem: agentCertificate,
        caPem: caCertificate,
        notBeforeMs: goldenIssuedMs - dayMs,
        notAfterMs: goldenIssuedMs + 7 * dayMs,
        renewAtMs: goldenIssuedMs + (7 * dayMs * 2) / 3,
      },
    });
    expect((await createKey(dir.path)).publicKeyDer).toEqual(input.publicKeyDer);
  });
});
