/**
 * Hosts that a program contacts or resolves because its arguments name them. A request sends its URL to the host, and a lookup sends the name to the
 * servers of its domain, so a caller can exfiltrate data by either. People may do that; models only for hosts in the agent's config.
 */

import type { UsedArguments } from "../argument-grammar.ts";

type Hosts = (used: UsedArguments) => string[];

/** The first operands; later ones are not hosts. */
export function operandHosts(count = 64): Hosts {
  return ({ operands }) => operands.slice(0, count);
}

/** Record types and classes of `dig`: operands that are not host names. */
const recordTypes =
  /^(?:a|aaaa|any|axfr|caa|cname|dnskey|ds|hinfo|https|in|ixfr(?:=\d+)?|loc|mx|naptr|ns|nsec3?|ptr|rrsig|soa|spf|srv|sshfp|svcb|tlsa|txt|uri|ch|hs)$/i;

export const digHosts: Hosts = ({ options, operands }) => [
  ...operands.filter((word) => !word.startsWith("+") && !recordTypes.test(word)).map((word) => word.replace(/^@/, "")),
  ...(options.get("-q") ?? []),
  ...(options.get("-x") ?? []),
];

/** Only for databases of hosts; other databases are files. */
export const getentHosts: Hosts = ({ operands: [database = "", ...names] }) => (/^(?:a?hosts|networks)/.test(database) ? names : []);

/** `-i TCP@host:port`. */
export const lsofHosts: Hosts = ({ options, operands }) =>
  [...(options.get("-i") ?? []), ...operands.filter((word) => !word.startsWith("/"))].flatMap((word) => {
    const [, hostAndPort] = word.split("@");
    return hostAndPort === undefined ? [] : [hostAndPort.replace(/^\[(.*)\](?::.*)?$/, "$1").replace(/^([^:]*):[^:]*$/, "$1")];
  });

/** Words of an `ss` filter that are neither addresses nor ports; any other word may be a name, which `ss` resolves. */
const socketWords = new Set(
  `and or not src dst sport dport dev fwmark cgroup state exclude autobound eq ne neq lt gt le ge geq leq all connected synchronized bucket big established
   syn-sent syn-recv fin-wait-1 fin-wait-2 time-wait closed close-wait last-ack listening listen closing bound-inactive`.split(/\s+/),
);

export const socketHosts: Hosts = ({ operands }) =>
  operands
    .join(" ")
    .split(/[\s()!&|<>=,]+/)
    .filter((part) => !socketWords.has(part) && !/^(?:\d*|\*|[\d*]*:[\w*-]*|\/.*)$/.test(part))
    // Removes the port of an IPv4 address or name; an IPv6 address has one only in brackets.
    .map((part) => part.replace(/^\[(.*)\](?::[\w*-]*)?$/, "$1").replace(/^([^:]*):[\w*-]*$/, "$1"));

/** Addresses are resolved only with -r. */
export function ipHosts(args: readonly string[]): string[] {
  return args.some((arg) => /^-{1,2}r(?:esolve)?$/.test(arg)) ? args.filter((arg) => /[.:]/.test(arg)) : [];
}

/** Also with a prefix length, and with brackets as in URLs. */
const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}(?:\/\d+)?|::1|\[::1\])$/i;

/** Names and addresses of the host itself. */
export function isLoopbackHost(host: string): boolean {
  return loopback.test(host);
}
