/** Names that TLS clients asked for in the clear, added up for a window. Bounded. */

import type { LossKind, PeerName, TrafficName } from "./messages.ts";
import type { PayloadRecord } from "./payload-streams.ts";
import { parseClientHello } from "./protocols/client-hello.ts";

const maxNames = 4096;

export class AskedNames {
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
    if (this.#served.size + this.#peers.size >= maxNames) {
      this.#onLoss("undecoded", 1);
      return;
    }
    if (role === "client") {
      this.#peers.set(`${peerAddress} ${peerPort} ${name}`, { address: peerAddress, port: peerPort, name, source: "tls_sni" });
      return;
    }
    const key = `${pid} ${localPort} ${name}`;
    const known = this.#served.get(key);
    if (known === undefined) this.#served.set(key, { pid, port: localPort, source: "tls_sni", name, requests: 1 });
    else known.requests++;
  }

  /** Hands over what was asked for since the last call. */
  take(): { names: TrafficName[]; peerNames: PeerName[] } {
    const taken = { names: [...this.#served.values()], peerNames: [...this.#peers.values()] };
    this.#served.clear();
    this.#peers.clear();
    return taken;
  }
}
