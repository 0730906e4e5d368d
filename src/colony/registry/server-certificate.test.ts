import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { createAuthority } from "../../transport/index.ts";
import { createServerCertificate } from "./server-certificate.ts";

const dayMs = 86_400_000;

it("createServerCertificate() reissues after two thirds of the lifetime, and calls back", async () => {
  const directory = mkdtempSync(join(tmpdir(), "coral-certificate-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const authority = await createAuthority(directory, "shop-test-0a1b2c");
  const certificate = await createServerCertificate(authority);
  const first = certificate.current();
  expect(first.caPem).toBe(authority.caPem);
  const endsMs = Date.parse(new X509Certificate(first.certPem).validTo);
  const onRenewed = vi.fn<() => void>();
  await certificate.renewWhenDue(endsMs - 11 * dayMs, onRenewed);
  expect(certificate.current()).toEqual(first);
  expect(onRenewed).not.toHaveBeenCalled();
  await certificate.renewWhenDue(endsMs - 9 * dayMs, onRenewed);
  expect(onRenewed).toHaveBeenCalledOnce();
  const next = certificate.current();
  expect(next.certPem).not.toBe(first.certPem);
  expect(next.keyPem).not.toBe(first.keyPem);
});
