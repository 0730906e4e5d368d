/**
 * tcpdump, restricted to header fields. It prints everything that it can decode, including passwords: of Redis, FTP and SNMP in payloads, of OSPF, VRRP
 * and PAP in their headers. So its filter is restricted to the few protocols without secrets in their headers, and the decoding of payloads is disabled.
 */

import {
  type ArgumentGrammar,
  checkArguments,
  matching,
  oneOf,
  plainWord,
  readArguments,
  upTo,
  type ValueCheck,
} from "../argument-grammar.ts";

/** Of `-c`, so that a capture ends even without a timeout. */
const maxPackets = 10_000;
/** Network interfaces only: not the other capture sources (D-Bus, USB, Bluetooth, netfilter's logs and queues), and not interface numbers. */
const networkInterface: ValueCheck = (value) =>
  /^\d+$|^(?:dbus|usbmon|bluetooth|nflog|nfqueue|rdma|netmap|rpcap|dag|snf)/i.test(value) ? "is not a network interface" : plainWord(value);

/** No option that writes, reads or names a file, or dumps payloads. Not -v, with which an ICMP error shows the packet inside it, of any protocol. */
const grammar: ArgumentGrammar = {
  flags: "DefKlnNOpqSt#J",
  short: {
    c: { value: upTo(maxPackets) },
    i: { value: networkInterface },
    s: { value: upTo(512) },
    Q: { value: oneOf("in", "out", "inout") },
    B: { value: upTo(32_768) },
  },
  long: { count: "flag", "list-interfaces": "flag", interface: { value: networkInterface }, "immediate-mode": "flag", number: "flag" },
  operand: matching(/^[\w.:/()!&|<>=+*[\]%, -]{1,1024}$/, "is not a word of a filter"),
};

/** The reason for a refusal; undefined if it is allowed. */
export function checkTcpdump(args: readonly string[]): string | undefined {
  return checkArguments(args, {
    ...grammar,
    whole: ({ options, operands }) => {
      if (!isBalanced(operands.join(" "))) return "the parentheses of its filter do not match";
      return options.has("-c") || options.has("-D") || options.has("--list-interfaces")
        ? undefined
        : `it needs -c with at most ${maxPackets}`;
    },
  });
}

/** Without -v, none of these shows more than addresses, ports, types and lengths; queries for node information (ICMPv6 139 and 140) show names. */
const shownProtocols = "(tcp or udp or icmp or arp or (icmp6 and ip6[40] != 139 and ip6[40] != 140))";

/**
 * The caller's filter comes second, in our parentheses: words such as `vlan` and `pppoes` move the offsets of everything after them, and must not move
 * ours. `-q` disables the decoding of payloads, but also drops flags and sequence numbers of TCP. If the filter is for TCP alone, they are kept by
 * declaring every payload CARP, which tcpdump does not decode inside TCP.
 */
export function rewriteTcpdump(args: readonly string[]): string[] {
  const { options, operands, words } = readArguments(args, grammar);
  const filter = operands.join(" ").trim();
  const showsFlags = isTcpOnly(filter) && !options.has("-q");
  const protocols = showsFlags ? "tcp" : shownProtocols;
  return [...(showsFlags ? ["-T", "carp"] : ["-q"]), ...words, "--", filter === "" ? protocols : `${protocols} and (${filter})`];
}

/** Without this check, a parenthesis of the caller could close one of ours. */
function isBalanced(filter: string): boolean {
  let depth = 0;
  for (const character of filter) {
    if (character === "(") depth++;
    else if (character === ")" && --depth < 0) return false;
  }
  return depth === 0;
}

function isTcpOnly(filter: string): boolean {
  let outer = filter;
  for (let inner = ""; inner !== outer; ) {
    inner = outer;
    outer = inner.replaceAll(/\([^()]*\)/g, " ");
  }
  return /^tcp\b/.test(outer) && !/\bor\b|\|\|/.test(outer);
}

/** Words of a filter that are neither addresses nor ports; any other word may be a name, which tcpdump resolves. */
const filterWords = new Set(
  `and or not src dst host net port portrange gateway proto protochain ether ip ip6 arp rarp tcp udp icmp icmp6 igmp sctp vlan mpls pppoes pppoed geneve
   broadcast multicast less greater len inbound outbound mask tcpflags tcp-fin tcp-syn tcp-rst tcp-push tcp-ack tcp-urg tcp-ece tcp-cwr icmptype icmpcode
   icmp-echo icmp-echoreply icmp-unreach icmp-timxceed icmp6type icmp6code`.split(/\s+/),
);

/** Words of the filter that may be host names. Numbers and keywords are not. */
export function tcpdumpHosts(args: readonly string[]): string[] {
  const { operands } = readArguments(args, grammar);
  return operands
    .join(" ")
    .split(/[\s()!&|<>=+*[\]%,]+/)
    .filter((part) => part !== "" && !filterWords.has(part) && !/^(?:\d+(?:-\d+)?|0x[\da-f]+|-\d*)$/i.test(part));
}
