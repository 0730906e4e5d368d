/** Internet addresses as text, and as the kernel prints or packs them. */

import { endianness } from "node:os";

/** Size of the address cache. The same few hundred addresses repeat in every scan. Cleared when full. */
const maxRemembered = 65_536;
const isLittleEndian = endianness() === "LE";

/** RFC 5952: lower case, no leading zeros, the longest run of two or more zero groups as `::`, mapped IPv4 in dotted form. */
export function formatIpv6(bytes: Uint8Array): string {
  const groups = Array.from({ length: 8 }, (_, index) => ((bytes[index * 2] ?? 0) << 8) | (bytes[index * 2 + 1] ?? 0));
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) return `::ffff:${[...bytes.subarray(12, 16)].join(".")}`;
  let best = { start: -1, length: 1 };
  for (let start = 0; start < 8; start++) {
    let length = 0;
    while (groups[start + length] === 0) length++;
    if (length > best.length) best = { start, length };
  }
  const text = (part: number[]): string => part.map((group) => group.toString(16)).join(":");
  if (best.start < 0) return text(groups);
  return `${text(groups.slice(0, best.start))}::${text(groups.slice(best.start + best.length))}`;
}

/** The kernel prints addresses as 32-bit words in host byte order. Null if the text is neither 8 nor 32 hex digits. */
export function decodeAddress(hex: string, order: "LE" | "BE" = endianness()): string | null {
  if (!/^(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{32})$/.test(hex)) return null;
  const bytes = Buffer.from(hex, "hex");
  if (order === "LE") bytes.swap32();
  return bytes.length === 4 ? [...bytes].join(".") : formatIpv6(bytes);
}

/** `10.0.0.1` for `::ffff:10.0.0.1`: an IPv4 connection on a dual-stack socket. */
export function withoutMapping(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
}

export function isWildcard(address: string): boolean {
  return address === "0.0.0.0" || address === "::";
}

export function isLoopback(address: string): boolean {
  return address.startsWith("127.") || address === "::1";
}

/** `fe80::/10` and `169.254/16`: not unique across hosts. */
export function isLinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/.test(address) || address.startsWith("169.254.");
}

export interface AddressTexts {
  /** Four bytes as one number in host byte order, as the kernel prints them in its socket tables. */
  ipv4(word: number): string;
  /** Four 32-bit words in host byte order. Mapped IPv4 addresses lose their prefix. */
  ipv6(word0: number, word1: number, word2: number, word3: number): string;
}

/** Formats addresses and caches the results. */
export function createAddressTexts(): AddressTexts {
  const ipv4Texts = new Map<number, string>();
  const ipv6Texts = new Map<string, string>();
  const words = new Uint32Array(4);
  const bytes = new Uint8Array(words.buffer);
  const remember = <K>(texts: Map<K, string>, key: K, text: string): string => {
    if (texts.size >= maxRemembered) texts.clear();
    texts.set(key, text);
    return text;
  };
  const dotted = (word: number): string => {
    const [a, b, c, d] = [word & 255, (word >>> 8) & 255, (word >>> 16) & 255, word >>> 24];
    return isLittleEndian ? `${a}.${b}.${c}.${d}` : `${d}.${c}.${b}.${a}`;
  };
  return {
    ipv4: (word) => ipv4Texts.get(word) ?? remember(ipv4Texts, word, dotted(word)),
    ipv6: (word0, word1, word2, word3) => {
      const key = `${word0},${word1},${word2},${word3}`;
      const known = ipv6Texts.get(key);
      if (known !== undefined) return known;
      words.set([word0, word1, word2, word3]);
      return remember(ipv6Texts, key, withoutMapping(formatIpv6(bytes)));
    },
  };
}
