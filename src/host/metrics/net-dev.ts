import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";
import { fieldsOf, toCount } from "../files/kernel-text.ts";

/** One network interface, counters since it was made. */
export interface InterfaceCounters {
  name: string;
  rxBytes: number;
  rxPackets: number;
  rxErrors: number;
  rxDrops: number;
  txBytes: number;
  txPackets: number;
  txErrors: number;
  txDrops: number;
}

export interface InterfaceScan {
  interfaces: InterfaceCounters[];
  /** Interfaces above the limit; those with the least traffic are dropped. */
  cut: number;
}

const maxInterfaces = 64;

/** Skips interfaces that never carried a packet. */
export function parseNetDev(text: string): InterfaceScan {
  const interfaces: InterfaceCounters[] = [];
  for (const line of text.split("\n")) {
    // The counters follow the last colon, with or without a blank: an alias such as "eth0:1" contains a colon.
    const colon = line.lastIndexOf(":");
    if (colon < 0) continue;
    const name = printable(line.slice(0, colon).trim(), 64);
    const fields = fieldsOf(line.slice(colon + 1));
    if (name === "" || fields.length < 16) continue;
    const counters: InterfaceCounters = {
      name,
      rxBytes: toCount(fields[0]),
      rxPackets: toCount(fields[1]),
      rxErrors: toCount(fields[2]),
      rxDrops: toCount(fields[3]),
      txBytes: toCount(fields[8]),
      txPackets: toCount(fields[9]),
      txErrors: toCount(fields[10]),
      txDrops: toCount(fields[11]),
    };
    if (counters.rxPackets + counters.txPackets + counters.rxErrors + counters.txErrors + counters.rxDrops + counters.txDrops > 0)
      interfaces.push(counters);
  }
  if (interfaces.length <= maxInterfaces) return { interfaces, cut: 0 };
  const busiest = interfaces.toSorted((a, b) => b.rxBytes + b.txBytes - a.rxBytes - a.txBytes);
  return { interfaces: busiest.slice(0, maxInterfaces), cut: busiest.length - maxInterfaces };
}

/** The interfaces of the network namespace that counts as the host's; see HostRoot.viewpoint. */
export function readInterfaces(root: HostRoot): InterfaceScan {
  return parseNetDev(root.readText(`${root.viewpoint}/net/dev`) ?? "");
}
