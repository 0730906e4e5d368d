import type { PeerName } from "../../traffic/index.ts";
import { hostNameOf } from "./learned-names.ts";

/** Reliability of a source: SNI names the server, a Host header may contain anything, a DNS address may be shared. */
const weights: Record<PeerName["source"], number> = { tls_sni: 3, http_host: 2, dns: 1 };

/** Names under which clients reach servers on other hosts. */
export class PeerNames {
  readonly #maxNames: number;
  /** Least recently seen first. */
  readonly #names = new Map<string, { name: string; weight: number }>();

  constructor(maxNames = 10_000) {
    this.#maxNames = maxNames;
  }

  add(peers: readonly PeerName[]): void {
    for (const { address, port, name, source } of peers) {
      const clean = hostNameOf(name);
      if (clean === null) continue;
      const key = `${address} ${port}`;
      const known = this.#names.get(key);
      const weight = weights[source];
      this.#names.delete(key);
      // An address with several names (proxy, load balancer) gets the newest of the best source.
      this.#names.set(key, known && known.weight > weight ? known : { name: clean, weight });
    }
    for (const oldest of this.#names.keys()) {
      if (this.#names.size <= this.#maxNames) break;
      this.#names.delete(oldest);
    }
  }

  nameOf(address: string, port: number): string | null {
    return (this.#names.get(`${address} ${port}`) ?? this.#names.get(`${address} 0`))?.name ?? null;
  }
}
