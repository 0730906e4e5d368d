/** Scope and canonical form of addresses. Two spellings of one address must never become two endpoints. */

import { formatIpv6 } from "../../../base/ip-address.ts";
import { type Ipv6Words, parseIpv4, parseIpv6 } from "../../../base/ip-parse.ts";

/** `private` holds RFC 1918, unique local and shared (carrier NAT) addresses; `reserved` addresses that are not in use. */
export type AddressScope = "unspecified" | "loopback" | "link-local" | "private" | "documentation" | "multicast" | "reserved" | "public";

interface ScopeRange {
  range: string;
  scope: AddressScope;
}

/** From IANA's special-purpose registries; the first match counts. Without a match, IPv4 is public; of IPv6 only 2000::/3 is. */
export const ipv4Scopes: readonly ScopeRange[] = [
  { range: "0.0.0.0/32", scope: "unspecified" },
  { range: "127.0.0.0/8", scope: "loopback" },
  { range: "169.254.0.0/16", scope: "link-local" },
  { range: "10.0.0.0/8", scope: "private" },
  { range: "172.16.0.0/12", scope: "private" },
  { range: "192.168.0.0/16", scope: "private" },
  { range: "100.64.0.0/10", scope: "private" },
  { range: "192.0.2.0/24", scope: "documentation" },
  { range: "198.51.100.0/24", scope: "documentation" },
  { range: "203.0.113.0/24", scope: "documentation" },
  { range: "224.0.0.0/4", scope: "multicast" },
  { range: "0.0.0.0/8", scope: "reserved" },
  { range: "192.0.0.0/24", scope: "reserved" },
  { range: "198.18.0.0/15", scope: "reserved" },
  { range: "240.0.0.0/4", scope: "reserved" },
];

export const ipv6Scopes: readonly ScopeRange[] = [
  { range: "::/128", scope: "unspecified" },
  { range: "::1/128", scope: "loopback" },
  { range: "fe80::/10", scope: "link-local" },
  { range: "fc00::/7", scope: "private" },
  { range: "fec0::/10", scope: "private" },
  { range: "64:ff9b:1::/48", scope: "private" },
  { range: "2001:db8::/32", scope: "documentation" },
  { range: "3fff::/20", scope: "documentation" },
  { range: "ff00::/8", scope: "multicast" },
  { range: "2000::/3", scope: "public" },
  { range: "::/0", scope: "reserved" },
];

interface Rule {
  words: readonly number[];
  masks: readonly number[];
  scope: AddressScope;
}

/** Built on first use: modules do no work when loaded. */
let rules: { ipv4: readonly Rule[]; ipv6: readonly Rule[] } | undefined;

/** An address in canonical form, with its scope. */
export interface Address {
  /** RFC 5952; an IPv4-mapped address is written as IPv4. */
  text: string;
  scope: AddressScope;
  /** The address to look up in DNS and ranges: for NAT64 (64:ff9b::/96) the embedded IPv4 address, else `text`. */
  knownAs: string;
}

/** Accepts every text form; a zone such as `%eth0` is dropped. Undefined for anything else. */
export function parseAddress(address: string): Address | undefined {
  const bits = parseIpv4(address);
  // The parser accepts one spelling only, so the text is already canonical.
  if (bits !== undefined) return { text: address, scope: scopeOf([bits], "ipv4"), knownAs: address };
  const zone = address.indexOf("%");
  const words = parseIpv6(zone < 0 ? address : address.slice(0, zone));
  if (words === undefined) return undefined;
  const [a, b, c, d] = words;
  if (a === 0 && b === 0 && c === 0xffff) return ofIpv4(d);
  const text = formatIpv6(bytesOf(words));
  if (a === 0x0064ff9b && b === 0 && c === 0) {
    const { scope, text: knownAs } = ofIpv4(d);
    return { text, scope, knownAs };
  }
  return { text, scope: scopeOf(words, "ipv6"), knownAs: text };
}

/** Undefined for anything but an address. */
export function addressScope(address: string): AddressScope | undefined {
  return parseAddress(address)?.scope;
}

/** `2001:DB8:0:0::1` → `2001:db8::1`, `::ffff:10.0.0.1` → `10.0.0.1`. Undefined for anything but an address. */
export function canonicalAddress(address: string): string | undefined {
  return parseAddress(address)?.text;
}

/** The reverse DNS name, such as `1.113.0.203.in-addr.arpa`. `address` is canonical. */
export function reverseName(address: string): string | undefined {
  const bits = parseIpv4(address);
  if (bits !== undefined) return `${dotted(bits).split(".").reverse().join(".")}.in-addr.arpa`;
  const words = parseIpv6(address);
  if (words === undefined) return undefined;
  const digits = words.map((word) => word.toString(16).padStart(8, "0")).join("");
  return `${[...digits].reverse().join(".")}.ip6.arpa`;
}

function ofIpv4(bits: number): Address {
  const text = dotted(bits);
  return { text, scope: scopeOf([bits], "ipv4"), knownAs: text };
}

function scopeOf(words: readonly number[], family: "ipv4" | "ipv6"): AddressScope {
  rules ??= { ipv4: ipv4Scopes.map(toRule), ipv6: ipv6Scopes.map(toRule) };
  return rules[family].find((rule) => isInside(words, rule))?.scope ?? "public";
}

function isInside(words: readonly number[], { words: start, masks }: Rule): boolean {
  for (let index = 0; index < words.length; index++) {
    if ((((words[index] ?? 0) ^ (start[index] ?? 0)) & (masks[index] ?? 0)) !== 0) return false;
  }
  return true;
}

function toRule({ range, scope }: ScopeRange): Rule {
  const [address = "", length] = range.split("/");
  const bits = parseIpv4(address);
  const words = bits === undefined ? (parseIpv6(address) ?? []) : [bits];
  const masks = words.map((_, index) => {
    const kept = Math.min(Math.max(Number(length) - index * 32, 0), 32);
    return kept === 0 ? 0 : 0xffffffff << (32 - kept);
  });
  return { words, masks, scope };
}

function dotted(bits: number): string {
  return `${bits >>> 24}.${(bits >>> 16) & 255}.${(bits >>> 8) & 255}.${bits & 255}`;
}

function bytesOf(words: Ipv6Words): Uint8Array {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  for (const [index, word] of words.entries()) view.setUint32(index * 4, word);
  return bytes;
}
