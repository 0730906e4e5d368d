/** Server names in ClientHellos and in requests that user space decodes, summed per window. Bounded. */

import type { LossKind, PeerName, TrafficName } from "../core/messages.ts";
import type { FinishedRequest } from "../core/protocol-decoder.ts";
import { parseClientHello } from "../protocols/client-hello.ts";
import type { PayloadRecord, StreamEnds } from "./payload-streams.ts";

const maxNames = 4096;

interface Server {
  pid: number;
  role: "server" | "client";
  serverPort: number;
  peerAddress: string;
}

export class RequestedHosts {
  readonly #served = new Map<string, TrafficName>();
  readonly #peers = new Map<string, PeerName>();
  readonly #onLoss: (loss: LossKind, count: number) => void;

  constructor(onLoss: (loss: LossKind, count: number) => void) {
    this.#onLoss = onLoss;
  }

  /** The first payload of a TLS connection. */
  onHello({ bytes, role, pid, localPort, peerPort, peerAddress }: PayloadRecord): void {
    const name = parseClientHello(bytes)?.serverName ?? null;
    if (name === null || role === null) return;
    this.#add({ pid, role, serverPort: role === "client" ? peerPort : localPort, peerAddress }, "tls_sni", name);
  }

  /** A request that names its server: by host, or by gRPC service. */
  onRequest(ends: StreamEnds, { host, protocol, route }: FinishedRequest): void {
    if (typeof host === "string") this.#add(ends, "http_host", host);
    const slash = protocol === "grpc" && !route.startsWith("/") ? route.indexOf("/") : -1;
    if (slash > 0 && ends.role === "server") this.#add(ends, "grpc_service", route.slice(0, slash));
  }

  /** Returns the names since the last call. */
  take(): { names: TrafficName[]; peerNames: PeerName[] } {
    const taken = { names: [...this.#served.values()], peerNames: [...this.#peers.values()] };
    this.#served.clear();
    this.#peers.clear();
    return taken;
  }

  #add({ pid, role, serverPort, peerAddress }: Server, source: TrafficName["source"], name: string): void {
    if (role === "client") {
      if (source === "grpc_service") return;
      const key = `${peerAddress} ${serverPort} ${source} ${name}`;
      if (!this.#peers.has(key) && this.#hasRoom()) this.#peers.set(key, { address: peerAddress, port: serverPort, name, source });
      return;
    }
    const key = `${pid} ${serverPort} ${source} ${name}`;
    const known = this.#served.get(key);
    if (known !== undefined) known.requests++;
    else if (this.#hasRoom()) this.#served.set(key, { pid, port: serverPort, source, name, requests: 1 });
  }

  #hasRoom(): boolean {
    if (this.#served.size + this.#peers.size < maxNames) return true;
    this.#onLoss("undecoded", 1);
    return false;
  }
}
