/** Golden certificates: released agents and colonies have such files, which must remain usable. */

import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryDirectory } from "../colony.fixture.ts";
import { createAuthority, openAuthority } from "./authority.ts";
import { comparableCertificate, goldenIdentity, goldenIssuedMs } from "./golden-identity.fixture.ts";
import { spiffeIdOf } from "./spiffe-id.ts";

const dayMs = 86_400_000;
const { colonyId, agentId } = goldenIdentity;

async function openGolden(directory: string) {
  await writeFile(join(directory, "ca.key"), goldenIdentity.caKey, { mode: 0o600 });
  await writeFile(join(directory, "ca.crt"), goldenIdentity.caCertificate, { mode: 0o600 });
  return await openAuthority(directory, colonyId);
}

const publicKeyDer = (pem: string): Buffer => new X509Certificate(pem).publicKey.export({ type: "spki", format: "der" });

describe("certificates", () => {
  it("of a new authority have the golden content", async () => {
    await using dir = await temporaryDirectory();
    const { caPem } = await createAuthority(dir.path, colonyId, { nowMs: goldenIssuedMs });
    expect(comparableCertificate(caPem, true)).toBe(comparableCertificate(goldenIdentity.caCertificate, true));
  });

  it("of agents have the golden content", async () => {
    await using dir = await temporaryDirectory();
    const authority = await openGolden(dir.path);
    const key = publicKeyDer(goldenIdentity.agentCertificate);
    const issued = await authority.issueAgent({ agentId, publicKeyDer: key, ttlMs: 7 * dayMs, nowMs: goldenIssuedMs });
    expect(comparableCertificate(issued.certPem, false)).toBe(comparableCertificate(goldenIdentity.agentCertificate, false));
    expect(issued.certPem.endsWith(goldenIdentity.caCertificate)).toBe(true);
  });

  it("of the colony have the golden content", async () => {
    await using dir = await temporaryDirectory();
    const authority = await openGolden(dir.path);
    const issued = await authority.issueColony({ ttlMs: 30 * dayMs, nowMs: goldenIssuedMs });
    expect(comparableCertificate(issued.certPem, true)).toBe(comparableCertificate(goldenIdentity.colonyCertificate, true));
  });
});

describe("golden certificate files", () => {
  it("open as an authority with the golden fingerprint", async () => {
    await using dir = await temporaryDirectory();
    const authority = await openGolden(dir.path);
    expect(authority.fingerprint).toBe(goldenIdentity.fingerprint);
    expect(authority.caPem).toBe(goldenIdentity.caCertificate);
  });

  it("verify against the authority and name the agent and the colony", () => {
    const ca = new X509Certificate(goldenIdentity.caCertificate);
    const agent = new X509Certificate(goldenIdentity.agentCertificate);
    const colony = new X509Certificate(goldenIdentity.colonyCertificate);
    for (const leaf of [agent, colony]) expect([leaf.checkIssued(ca), leaf.verify(ca.publicKey)]).toEqual([true, true]);
    expect(agent.subjectAltName).toBe(`URI:spiffe://${colonyId}/agent/${agentId}`);
    expect(spiffeIdOf(agent)).toEqual({ kind: "agent", colonyId, agentId });
    expect(colony.subjectAltName).toBe(`URI:spiffe://${colonyId}/colony, DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1`);
    expect(spiffeIdOf(colony)).toEqual({ kind: "colony", colonyId });
  });
});
