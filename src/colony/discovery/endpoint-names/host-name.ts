/** Names that come from DNS, where anybody may write anything. */

import { parseIpv4 } from "../../../base/ip-parse.ts";

/** RFC 1035, without the final dot. */
const maxLength = 253;
const label = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?";
const hostNamePattern = new RegExp(`^${label}(?:\\.${label})*$`);

/**
 * Lower case, without the final dot. Undefined for what is no host name, and for names that say nothing: the address once more, `localhost`,
 * the reverse zone itself. Refused rather than repaired: a name with an escape code in it is an attack, not a spelling.
 */
export function cleanHostName(raw: string): string | undefined {
  if (raw.length > maxLength + 1) return undefined;
  const name = raw.toLowerCase().replace(/\.$/, "");
  if (name.length > maxLength || !hostNamePattern.test(name)) return undefined;
  if (parseIpv4(name) !== undefined || name.endsWith(".arpa") || /^localhost(?:$|\.)/.test(name)) return undefined;
  return name;
}
