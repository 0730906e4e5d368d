/** Caches the names of services; reloads when discovery changed them. */

import { type ColonyStore } from "../../store/colony/index.ts";
import { readServiceNames } from "../../store/discovery/index.ts";
import type { DiscoveryLoop } from "../discovery/discovery-loop.ts";
import { ServiceNames } from "./service-names.ts";

export interface ServiceDirectoryOptions {
  store: Pick<ColonyStore, "query">;
  discovery: Pick<DiscoveryLoop, "catchUp" | "namesVersion">;
}

export class ServiceDirectory {
  readonly #options: ServiceDirectoryOptions;
  #read: { version: number; names: Promise<ServiceNames> } | undefined;

  constructor(options: ServiceDirectoryOptions) {
    this.#options = options;
  }

  async names(): Promise<ServiceNames> {
    const { discovery } = this.#options;
    await discovery.catchUp();
    const version = discovery.namesVersion;
    if (this.#read?.version !== version) {
      const names = readServiceNames(this.#options.store).then((stored) => new ServiceNames(stored));
      this.#read = { version, names };
      // A failed read rejects its waiters; the next call retries.
      names.catch(() => {
        if (this.#read?.names === names) this.#read = undefined;
      });
    }
    return await this.#read.names;
  }
}
