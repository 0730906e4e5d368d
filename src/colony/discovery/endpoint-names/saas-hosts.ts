/** Finds the product that a host name belongs to. */

import { parseAwsHost } from "./aws-host.ts";
import { saasSuffixes } from "./saas-suffixes.ts";

export interface SaasHost {
  provider: string;
  product?: string;
  region?: string;
  /** Whether the name only identifies the owner of the machine, not the product. */
  isMachine: boolean;
}

/** Built on first use: modules do no work when loaded. */
let bySuffix: ReadonlyMap<string, SaasHost> | undefined;

/** The longest suffix on label boundaries counts; `github.com.evil.example` is not GitHub. `hostName` is lower case, without final dot. */
export function findSaasHost(hostName: string): SaasHost | undefined {
  const aws = parseAwsHost(hostName);
  if (aws) return { provider: "AWS", ...aws };
  bySuffix ??= indexSuffixes();
  for (let at = 0; at >= 0; ) {
    const found = bySuffix.get(at === 0 ? hostName : hostName.slice(at));
    if (found) return found;
    const dot = hostName.indexOf(".", at);
    if (dot < 0) return undefined;
    at = dot + 1;
  }
  return undefined;
}

function indexSuffixes(): ReadonlyMap<string, SaasHost> {
  const index = new Map<string, SaasHost>();
  for (const [provider, { products = {}, machines = {} }] of Object.entries(saasSuffixes)) {
    for (const [product, suffixes] of Object.entries(products)) {
      for (const suffix of suffixes) index.set(suffix, { provider, product, isMachine: false });
    }
    for (const [product, suffixes] of Object.entries(machines)) {
      for (const suffix of suffixes) index.set(suffix, { provider, product, isMachine: true });
    }
  }
  return index;
}
