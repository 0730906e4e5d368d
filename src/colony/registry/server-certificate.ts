import type { Authority } from "../../transport/index.ts";

/** The colony's TLS certificate: in memory only, reissued after two thirds of its lifetime. */
export interface ServerCertificate {
  current(): { certPem: string; keyPem: string; caPem: string };
  renewWhenDue(nowMs: number, onRenewed: () => void): Promise<void>;
}

const ttlMs = 30 * 86_400_000;

export async function createServerCertificate(authority: Authority): Promise<ServerCertificate> {
  let issued = await authority.issueColony({ ttlMs });
  return {
    current: () => ({ certPem: issued.certPem, keyPem: issued.keyPem, caPem: authority.caPem }),
    renewWhenDue: async (nowMs, onRenewed) => {
      if (issued.notAfterMs - nowMs > ttlMs / 3) return;
      issued = await authority.issueColony({ ttlMs });
      onRenewed();
    },
  };
}
