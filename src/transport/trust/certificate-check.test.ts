import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hourMs, issueIdentity, temporaryDirectory } from "../colony.fixture.ts";
import { type Authority, createAuthority } from "./authority.ts";
import { checkAgentCertificate, colonyCertificateProblem } from "./certificate-check.ts";

const colonyId = "shop-test-0a1b2c";
const nowMs = Date.now();
let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let ours: Authority;
/** Another authority that claims the same colony id. */
let impostor: Authority;
let other: Authority;

beforeAll(async () => {
  directory = await temporaryDirectory();
  ours = await createAuthority(join(directory.path, "a"), colonyId);
  impostor = await createAuthority(join(directory.path, "b"), colonyId);
  other = await createAuthority(join(directory.path, "c"), "bank-prod-ffffff");
});

afterAll(() => directory[Symbol.asyncDispose]());

async function verdict(authority: Authority, life = { ttlMs: hourMs, nowMs }, revoked: string[] = []) {
  const { certPem } = await issueIdentity(authority, "web-1", life);
  return checkAgentCertificate(new X509Certificate(certPem), {
    authority: new X509Certificate(ours.caPem),
    colonyId,
    nowMs,
    isRevoked: (agentId) => revoked.includes(agentId),
  });
}

test("checkAgentCertificate() accepts our agent", async () => {
  expect(await verdict(ours)).toMatchObject({ kind: "agent", agentId: "web-1" });
});

test("checkAgentCertificate() accepts an agent whose colony's clock was stepped back an hour after the issue", async () => {
  expect(await verdict(ours, { ttlMs: hourMs, nowMs: nowMs + hourMs })).toMatchObject({ kind: "agent" });
});

test("checkAgentCertificate() states the reason", async () => {
  const reason = async (...args: Parameters<typeof verdict>): Promise<unknown> => {
    const result = await verdict(...args);
    return result.kind === "refused" ? result.reason : result;
  };
  expect(await reason(ours, { ttlMs: hourMs, nowMs: nowMs - 2 * hourMs })).toMatch(
    /^the certificate is expired on \d{4}-\d\d-\d\dT[\d:]+Z/,
  );
  expect(await reason(ours, { ttlMs: hourMs, nowMs: nowMs + 25 * hourMs })).toMatch(/^the certificate is not valid before \d{4}-/);
  expect(await reason(impostor)).toBe(`the certificate is signed by another authority "coral colony ${colonyId}"`);
  expect(await reason(other)).toBe(
    `the certificate is for colony "bank-prod-ffffff", this is "${colonyId}"; it is signed by another authority "coral colony bank-prod-ffffff"`,
  );
  expect(await reason(ours, { ttlMs: hourMs, nowMs }, ["web-1"])).toBe('the certificate of agent "web-1" is revoked');
  const check = { authority: new X509Certificate(ours.caPem), colonyId, nowMs, isRevoked: () => false };
  expect(checkAgentCertificate(undefined, check)).toEqual({ kind: "missing" });
  const { certPem } = await ours.issueColony({ ttlMs: hourMs });
  expect(checkAgentCertificate(new X509Certificate(certPem), check)).toEqual({
    kind: "refused",
    reason: "the certificate is not an agent's (it is a colony's)",
  });
  expect(checkAgentCertificate(new X509Certificate(ours.caPem), check)).toMatchObject({ kind: "refused" });
});

test("colonyCertificateProblem() accepts the colony and refuses everyone else", async () => {
  const authority = new X509Certificate(ours.caPem);
  const problem = (certPem: string, expectedId: string | undefined = colonyId) =>
    colonyCertificateProblem(new X509Certificate(certPem), { authority, colonyId: expectedId, nowMs });
  const colony = (await ours.issueColony({ ttlMs: hourMs })).certPem;
  expect(problem(colony)).toBeUndefined();
  expect(colonyCertificateProblem(new X509Certificate(colony), { authority, nowMs })).toBeUndefined();
  expect(problem(colony, "bank-prod-ffffff")).toBe(`it is colony "${colonyId}", not "bank-prod-ffffff"`);
  expect(problem((await impostor.issueColony({ ttlMs: hourMs })).certPem)).toContain("signed by another authority");
  expect(problem((await other.issueColony({ ttlMs: hourMs })).certPem)).toContain('it is colony "bank-prod-ffffff"');
  expect(problem((await ours.issueColony({ ttlMs: hourMs, nowMs: nowMs - 2 * hourMs })).certPem)).toContain("expired on");
  // An agent of the same colony must not be able to impersonate the colony.
  expect(problem((await issueIdentity(ours, "web-1")).certPem)).toBe('its certificate is not a colony\'s (it is agent "web-1")');
});
