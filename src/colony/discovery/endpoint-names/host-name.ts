/** Host names from DNS, which is untrusted input. */

import { parseIpv4 } from "../../../base/ip-parse.ts";

/** RFC 1035, without the final dot. */
const maxLength = 253;
const label = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?";
const hostNamePattern = new RegExp(`^${label}(?:\\.${label})*$`);

/**
 * Normalizes a host name: lower case, without the final dot. Undefined for invalid names, and for uninformative ones: an address, `localhost`, the
 * reverse zone itself. Rejects rather than repairs: a name with an escape code is an attack, not a typo.
 */
export function cleanHostName(raw: string): string | undefined {
  if (raw.length > maxLength + 1) return undefined;
  const name = raw.toLowerCase().replace(/\.$/, "");
  if (name.length > maxLength || !hostNamePattern.test(name)) return undefined;
  if (parseIpv4(name) !== undefined || name.endsWith(".arpa") || /^localhost(?:$|\.)/.test(name)) return undefined;
  return name;
}
