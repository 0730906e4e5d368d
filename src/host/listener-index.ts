/** Which ports are, or were, listened on: what makes one end of a connection the server. */

import { isWildcard } from "../base/ip-address.ts";
import type { SocketProtocol } from "./socket-source.ts";
import type { TrackedSocket } from "./tracked-socket.ts";

export interface ListenerIndex {
  add(listener: TrackedSocket): void;
  /** It stops to listen: connections that it accepted may go on, so it is remembered. */
  retire(listener: TrackedSocket): void;
  /** Listeners of the address and port, those of all addresses included. Empty when there is none. */
  match(networkNamespace: number, protocol: SocketProtocol, address: string, port: number): readonly TrackedSocket[];
  /** Whether there was one since the start of the agent. */
  wasListening(networkNamespace: number, protocol: SocketProtocol, address: string, port: number): boolean;
}

/** Ports remembered after their listeners ended; the oldest goes first. */
const maxRetired = 4096;

export function createListenerIndex(): ListenerIndex {
  const ports = new Map<string, TrackedSocket[]>();
  const retired = new Set<string>();
  const keyOf = (networkNamespace: number, protocol: SocketProtocol, port: number): string => `${networkNamespace} ${protocol} ${port}`;
  const addressKey = (key: string, address: string): string => `${key} ${isWildcard(address) ? "*" : address}`;
  const match: ListenerIndex["match"] = (networkNamespace, protocol, address, port) => {
    const listeners = ports.get(keyOf(networkNamespace, protocol, port));
    if (!listeners) return [];
    const exact = listeners.filter((listener) => listener.localAddress === address);
    return exact.length > 0 ? exact : listeners.filter((listener) => isWildcard(listener.localAddress));
  };
  return {
    match,
    add: (listener) => {
      const key = keyOf(listener.networkNamespace, listener.protocol, listener.localPort);
      const listeners = ports.get(key);
      if (listeners) listeners.push(listener);
      else ports.set(key, [listener]);
    },
    retire: (listener) => {
      const key = keyOf(listener.networkNamespace, listener.protocol, listener.localPort);
      const left = ports.get(key)?.filter((other) => other !== listener) ?? [];
      if (left.length > 0) ports.set(key, left);
      else ports.delete(key);
      const mark = addressKey(key, listener.localAddress);
      retired.delete(mark);
      retired.add(mark);
      if (retired.size <= maxRetired) return;
      const [oldest] = retired;
      if (oldest !== undefined) retired.delete(oldest);
    },
    wasListening: (networkNamespace, protocol, address, port) => {
      if (match(networkNamespace, protocol, address, port).length > 0) return true;
      const key = keyOf(networkNamespace, protocol, port);
      return retired.has(addressKey(key, address)) || retired.has(`${key} *`);
    },
  };
}
