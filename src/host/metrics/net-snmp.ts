import type { HostRoot } from "../files/host-root.ts";
import { fieldsOf, toCount } from "../files/kernel-text.ts";

/** TCP over IPv4 and IPv6 together. All but `established` are counters since the network namespace was made. */
export interface TcpCounters {
  /** Connections in ESTABLISHED or CLOSE-WAIT now. */
  established: number;
  outSegments: number;
  retransmits: number;
  attemptFails: number;
  resetsSent: number;
  /** Connections dropped because an accept queue was full. */
  listenOverflows: number;
  /** All connections dropped at a listener, overflows included. */
  listenDrops: number;
}

/** Pairs of lines: `Tcp: Name Name …`, then `Tcp: 1 2 …`. Kernels add columns, so they are found by name. */
export function parseSnmp(text: string, section: string): Map<string, number> {
  const values = new Map<string, number>();
  const lines = text.split("\n");
  for (let index = 0; index + 1 < lines.length; index++) {
    const names = lines[index];
    const numbers = lines[index + 1];
    if (!names?.startsWith(`${section}: `) || !numbers?.startsWith(`${section}: `)) continue;
    const numberFields = fieldsOf(numbers);
    for (const [position, name] of fieldsOf(names).entries()) if (position > 0) values.set(name, toCount(numberFields[position]));
    break;
  }
  return values;
}

export function readTcp(root: HostRoot): TcpCounters {
  const tcp = parseSnmp(root.readText(`${root.viewpoint}/net/snmp`) ?? "", "Tcp");
  const extended = parseSnmp(root.readText(`${root.viewpoint}/net/netstat`) ?? "", "TcpExt");
  return {
    established: tcp.get("CurrEstab") ?? 0,
    outSegments: tcp.get("OutSegs") ?? 0,
    retransmits: tcp.get("RetransSegs") ?? 0,
    attemptFails: tcp.get("AttemptFails") ?? 0,
    resetsSent: tcp.get("OutRsts") ?? 0,
    listenOverflows: extended.get("ListenOverflows") ?? 0,
    listenDrops: extended.get("ListenDrops") ?? 0,
  };
}
