/** Current and former listening ports; they determine the server end of a connection. */

import { isWildcard } from "../../base/ip-address.ts";
import type { SocketProtocol } from "./socket-source.ts";
import type { TrackedSocket } from "./tracked-socket.ts";

/** One end of a connection, or the address of a listener. */
export interface LocalEnd {
  networkNamespace: number;
  protocol: SocketProtocol;
  address: string;
  port: number;
}

export interface ListenerIndex {
  add(listener: TrackedSocket): void;
  /** The listener closed. Connections that it accepted may continue, so it is kept. */
  retire(listener: TrackedSocket): void;
  /** Listeners of the address and port, those of all addresses included. Empty when there is none. */
  match(end: LocalEnd): readonly TrackedSocket[];
  /** Whether there was one since the start of the agent and is none now. */
  wasListening(end: LocalEnd): boolean;
}

/** Former ports; the oldest is evicted first. */
const maxRetired = 4096;
const none: readonly TrackedSocket[] = [];

/** Called for every new connection: numeric keys, and a single lookup for most ports. */
function keyOf(protocol: SocketProtocol, port: number): number {
  return port * 2 + (protocol === "udp" ? 1 : 0);
}

export function createListenerIndex(): ListenerIndex {
  /** For all namespaces. */
  const ports = new Map<number, TrackedSocket[]>();
  const retired = new Set<string>();
  const markOf = ({ networkNamespace, protocol, port }: LocalEnd, address: string): string =>
    `${networkNamespace} ${protocol} ${port} ${isWildcard(address) ? "*" : address}`;

  return {
    match: ({ networkNamespace, protocol, address, port }) => {
      const listeners = ports.get(keyOf(protocol, port));
      if (!listeners) return none;
      const [only] = listeners;
      const isMeant = (listener: TrackedSocket): boolean => listener.networkNamespace === networkNamespace;
      if (listeners.length === 1 && only) {
        return isMeant(only) && (only.localAddress === address || isWildcard(only.localAddress)) ? listeners : none;
      }
      const exact = listeners.filter((listener) => isMeant(listener) && listener.localAddress === address);
      return exact.length > 0 ? exact : listeners.filter((listener) => isMeant(listener) && isWildcard(listener.localAddress));
    },
    add: (listener) => {
      const key = keyOf(listener.protocol, listener.localPort);
      const listeners = ports.get(key);
      if (listeners) listeners.push(listener);
      else ports.set(key, [listener]);
    },
    retire: (listener) => {
      const { networkNamespace, protocol, localAddress: address, localPort: port } = listener;
      const left = ports.get(keyOf(protocol, port))?.filter((other) => other !== listener) ?? [];
      if (left.length > 0) ports.set(keyOf(protocol, port), left);
      else ports.delete(keyOf(protocol, port));
      const mark = markOf({ networkNamespace, protocol, address, port }, address);
      retired.delete(mark);
      retired.add(mark);
      if (retired.size <= maxRetired) return;
      const [oldest] = retired;
      if (oldest !== undefined) retired.delete(oldest);
    },
    wasListening: (end) => retired.size > 0 && (retired.has(markOf(end, end.address)) || retired.has(markOf(end, "::"))),
  };
}
