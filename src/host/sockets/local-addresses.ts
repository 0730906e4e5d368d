/** The host's own addresses in one network namespace. */

import { decodeAddress, isLinkLocal, isLoopback, withoutMapping } from "../../base/ip-address.ts";
import type { HostRoot } from "../files/host-root.ts";

const maxAddresses = 256;
const maxFileBytes = 1024 * 1024;

/** `|-- 10.0.0.5` followed by `/32 host LOCAL` in `/proc/<pid>/net/fib_trie`. */
export function parseFibTrie(text: string): string[] {
  const addresses = new Set<string>();
  let last = "";
  for (const line of text.split("\n")) {
    const found = /\|-- (\d{1,3}(?:\.\d{1,3}){3})\s*$/.exec(line)?.[1];
    if (found !== undefined) last = found;
    else if (last !== "" && /\/32 host LOCAL\s*$/.test(line)) addresses.add(last);
    if (addresses.size >= maxAddresses) break;
  }
  return [...addresses];
}

/** The first column of `/proc/<pid>/net/if_inet6`: 32 hex digits in the order of the network. */
export function parseIfInet6(text: string): string[] {
  const addresses: string[] = [];
  for (const line of text.split("\n", maxAddresses)) {
    const hex = /^[0-9a-f]{32}(?= )/.exec(line)?.[0];
    const address = hex === undefined ? null : decodeAddress(hex, "BE");
    if (address !== null) addresses.push(withoutMapping(address));
  }
  return addresses;
}

/** Without loopback and link-local addresses, which are not unique. `member` is a process in the namespace: `/proc/42`. */
export function readLocalAddresses(root: HostRoot, member: string): string[] {
  const ipv4 = parseFibTrie(root.readText(`${member}/net/fib_trie`, undefined, maxFileBytes) ?? "");
  const ipv6 = parseIfInet6(root.readText(`${member}/net/if_inet6`, undefined, maxFileBytes) ?? "");
  return [...ipv4, ...ipv6].filter((address) => !isLoopback(address) && !isLinkLocal(address));
}
