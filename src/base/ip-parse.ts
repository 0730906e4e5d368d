/** Parses internet addresses to bits. No Node APIs, no regular expressions, and no allocation for IPv4. */

/** An IPv6 address as four 32-bit words, most significant first. */
export type Ipv6Words = readonly [number, number, number, number];

const dot = 0x2e;
const colon = 0x3a;

/** `10.0.0.1` → 167772161. Undefined for anything else. Leading zeros are rejected, because some programs read them as octal. */
export function parseIpv4(text: string): number | undefined {
  let bits = 0;
  let octet = 0;
  let digits = 0;
  let dots = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === dot) {
      if (digits === 0 || ++dots > 3) return undefined;
      bits = bits * 256 + octet;
      octet = digits = 0;
      continue;
    }
    if (code < 0x30 || code > 0x39 || (digits > 0 && octet === 0)) return undefined;
    octet = octet * 10 + code - 0x30;
    if (octet > 255) return undefined;
    digits++;
  }
  return dots === 3 && digits > 0 ? bits * 256 + octet : undefined;
}

/** Every form of RFC 4291, including an IPv4 tail. Undefined for anything else; zones such as `%eth0` are not part of an address. */
export function parseIpv6(text: string): Ipv6Words | undefined {
  const length = text.length;
  if (length < 2 || length > 45) return undefined;
  const groups: number[] = [];
  let gapAt = -1;
  let at = 0;
  if (text.charCodeAt(0) === colon) {
    if (text.charCodeAt(1) !== colon) return undefined;
    gapAt = 0;
    at = 2;
  }
  while (at < length) {
    const start = at;
    const group = hexGroup(text, start);
    if (group === undefined) return undefined;
    at = group.end;
    if (text.charCodeAt(at) === dot) {
      const tail = parseIpv4(text.slice(start));
      if (tail === undefined) return undefined;
      groups.push(tail >>> 16, tail & 0xffff);
      break;
    }
    groups.push(group.value);
    if (at === length) break;
    if (text.charCodeAt(at++) !== colon || at === length) return undefined;
    if (text.charCodeAt(at) !== colon) continue;
    if (gapAt >= 0) return undefined;
    gapAt = groups.length;
    at++;
  }
  if (gapAt < 0 ? groups.length !== 8 : groups.length > 7) return undefined;
  if (gapAt >= 0) groups.splice(gapAt, 0, ...Array<number>(8 - groups.length).fill(0));
  const word = (index: number): number => (((groups[index * 2] ?? 0) << 16) | (groups[index * 2 + 1] ?? 0)) >>> 0;
  return [word(0), word(1), word(2), word(3)];
}

/** One to four hex digits. */
function hexGroup(text: string, start: number): { value: number; end: number } | undefined {
  let value = 0;
  let end = start;
  for (; end < text.length; end++) {
    const digit = hexDigit(text.charCodeAt(end));
    if (digit < 0) break;
    if (end - start === 4) return undefined;
    value = value * 16 + digit;
  }
  return end === start ? undefined : { value, end };
}

function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
