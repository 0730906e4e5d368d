/** Programs about the network, and programs that query other hosts. */

import { type ArgumentGrammar, matching, plainWord, upTo } from "../argument-grammar.ts";
import { digHosts, ipHosts, operandHosts, socketHosts } from "./contacted-hosts.ts";
import { checkCurl, curlFirst, curlHosts } from "./curl-arguments.ts";
import { checkIp } from "./diagnostic-arguments.ts";
import type { DiagnosticProgram } from "./diagnostic-program.ts";
import { flags, large, seesOwners, simple, small, word } from "./option-rules.ts";
import { checkTcpdump, rewriteTcpdump, tcpdumpHosts } from "./tcpdump-arguments.ts";

/** Host names and addresses. */
const hostName = matching(/^[A-Za-z0-9_][\w.:%-]{0,252}$/, "is not a host or an address");

export const networkPrograms: Readonly<Record<string, DiagnosticProgram>> = {
  ss: simple(
    {
      flags: "nralmoepiMszbTtudwxSHOQ046BWE",
      short: { f: word, A: word },
      long: flags(
        "numeric",
        "resolve",
        "all",
        "listening",
        "options",
        "extended",
        "memory",
        "processes",
        "info",
        "summary",
        "tcp",
        "udp",
        "unix",
        "raw",
        "no-header",
        "oneline",
        "ipv4",
        "ipv6",
      ),
      // Words of a filter: `state established '( sport = :80 )'`.
      operand: matching(/^[\w.:*/[\]()=<>!&|, -]{1,512}$/, "is not a word of a filter"),
    },
    { capabilities: seesOwners, hosts: socketHosts },
  ),
  netstat: simple(
    {
      flags: "vWnNeopaltuwxrisgM46F",
      long: flags(
        "route",
        "interfaces",
        "groups",
        "statistics",
        "numeric",
        "extend",
        "programs",
        "verbose",
        "timers",
        "listening",
        "all",
        "tcp",
        "udp",
        "unix",
        "raw",
        "wide",
        "inet",
        "inet6",
      ),
    },
    { capabilities: seesOwners },
  ),
  // Without both of these it writes a history file.
  nstat: simple({ flags: "asznjp", operand: plainWord }, { prepend: ["-a", "-s"] }),
  ip: { check: checkIp, hosts: ipHosts },
  ping: simple(
    {
      flags: "nqDR46OUv",
      short: {
        c: { value: upTo(20) },
        i: { value: atLeast(0.2) },
        W: small,
        w: { value: upTo(60) },
        s: { value: upTo(9_000) },
        t: small,
        M: word,
        I: word,
      },
      operand: hostName,
      maxOperands: 1,
      whole: needs("-c", "-c with at most 20"),
    },
    { capabilities: ["net_raw"], hosts: operandHosts() },
  ),
  traceroute: simple(
    {
      flags: "nITUF46e",
      short: { m: { value: upTo(64) }, q: { value: upTo(5) }, w: { value: upTo(10) }, p: { value: upTo(65_535) }, i: word },
      operand: hostName,
      maxOperands: 2,
    },
    { capabilities: ["net_raw"], hosts: operandHosts(1) },
  ),
  tracepath: simple(
    { flags: "nb46", short: { m: { value: upTo(64) }, l: large, p: large }, operand: hostName, maxOperands: 1 },
    { hosts: operandHosts() },
  ),
  // Not -f and -k, which read files.
  dig: simple(
    {
      flags: "46ruv",
      short: { b: word, p: { value: upTo(65_535) }, q: word, t: word, c: word, x: word },
      operand: matching(/^(?:@?[\w.:*/-]{1,253}|\+[\w=.-]{1,64})$/, "is not a name, a type, a server or a +option"),
      maxOperands: 12,
    },
    { prepend: ["-r"], hosts: digHosts },
  ),
  host: simple(
    {
      flags: "aCdlrsTUvwi46",
      short: { t: word, W: { value: upTo(60) }, R: { value: upTo(10) }, c: word, N: small },
      operand: hostName,
      maxOperands: 2,
    },
    { hosts: operandHosts() },
  ),
  nslookup: simple(
    {
      operand: hostName,
      maxOperands: 2,
      whole: ({ operands }) => (operands.length === 0 ? "a name is missing" : undefined),
    },
    { hosts: operandHosts() },
  ),
  curl: { check: checkCurl, prepend: curlFirst, hosts: curlHosts },
  tcpdump: { check: checkTcpdump, rewrite: rewriteTcpdump, hosts: tcpdumpHosts, capabilities: ["net_raw"], stopAfterMs: 60_000 },
};

function atLeast(min: number) {
  return (value: string): string | undefined =>
    /^\d{1,4}(?:\.\d{1,3})?$/.test(value) && Number(value) >= min ? undefined : `is not a number of at least ${min}`;
}

function needs(option: string, what: string): NonNullable<ArgumentGrammar["whole"]> {
  return ({ options }) => (options.has(option) ? undefined : `it needs ${what}`);
}
