/** Names external addresses by reverse DNS, known products and providers' ranges. */

import { background } from "../../../base/background.ts";
import type { Clock } from "../../../base/clock.ts";
import { CoralError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import type { RangeLabel } from "../../../tools/index.ts";
import { type Address, type AddressScope, addressScope, parseAddress } from "./address-scope.ts";
import { chooseName, needsProof } from "./choose-name.ts";
import type { EndpointName, EndpointNameMethod, EndpointNames, NameLimits } from "./endpoint-names.ts";
import { RangesDirectory, type RangesFile } from "./ranges-directory.ts";
import { ReverseDns, type ReverseDnsSettings, type ReverseDnsStats } from "./reverse-dns.ts";

/** `service_discovery.external_resolution` of the colony's config. */
export interface EndpointNameSettings {
  /** False: no names, no lookups, no ranges are read. */
  enabled: boolean;
  /** False: names come from ranges only, and no DNS query is sent. */
  reverseDns: boolean;
  /** Empty: the system's servers. */
  dnsServers: readonly string[];
  dnsCacheTtlMs: number;
  dnsTimeoutMs: number;
  /** Whether to query the system's servers for private addresses. Configured servers are queried if they are private themselves. */
  privateAddresses: boolean;
  /** False: ranges are not read. */
  cloudProviderDetection: boolean;
}

/** A name kept over restarts: a row of the table `endpoint_resolution`. */
export interface StoredEndpointName {
  address: string;
  /** Null: the address has no name. */
  name: string | null;
  method: EndpointNameMethod | null;
  confidence: number;
  provider: string | null;
  product: string | null;
  region: string | null;
  /** Milliseconds since 1970, as is `expiresAtMs`. */
  resolvedAtMs: number;
  expiresAtMs: number;
}

/** Persists names over restarts. */
export interface EndpointNameStore {
  /** The newest names; more than 50,000 are not used. */
  load(): Promise<readonly StoredEndpointName[]>;
  /** Replaces the rows of the same addresses. Called with at most 1,000, every few seconds, never concurrently. */
  save(names: readonly StoredEndpointName[]): Promise<void>;
}

export interface EndpointNamesOptions {
  settings: EndpointNameSettings;
  /** `<colony directory>/ranges`; need not exist. */
  rangesDirectory: string;
  store?: EndpointNameStore;
  clock: Clock;
  log: Logger;
}

export interface EndpointNamesStats {
  dns: ReverseDnsStats;
  ranges: { files: RangesFile[]; prefixes: number; sizeBytes: number };
  /** Answers dropped because the queue to the store was full. */
  unsaved: number;
}

export interface EndpointNamesService extends EndpointNames {
  /** Applies a changed config at once. Throws `invalid`, and changes nothing, if a DNS server is not an address. */
  reconfigure(settings: EndpointNameSettings): void;
  stats(): EndpointNamesStats;
  /** Why names cannot be found: unreadable files, silent DNS servers. Empty when all works. */
  problems(): string[];
}

/** Scopes that are only meaningful locally: reverse DNS and ranges cannot name them. */
const namelessScopes: ReadonlySet<AddressScope> = new Set(["unspecified", "loopback", "link-local", "multicast", "reserved"]);
/** Lifetime of a name that may improve when DNS answers. */
const pendingTtlMs = 30_000;
const saveDelayMs = 2_000;
const saveBatch = 1_000;
const maxUnsaved = 10_000;
/** Addresses with limits in memory. Enough: requests are smaller, and each repeats its limits. */
const maxLimited = 50_000;
const noLimits: NameLimits = { reverseDns: true, providerRanges: true, maxCacheMs: null };

/** Resolves when ranges and stored names are loaded. */
export async function createEndpointNames(options: EndpointNamesOptions): Promise<EndpointNamesService> {
  const names = new Names(options);
  await names.load();
  return names;
}

class Names implements EndpointNamesService {
  readonly #options: EndpointNamesOptions;
  #settings: EndpointNameSettings;
  readonly #ranges: RangesDirectory;
  readonly #dns: ReverseDns;
  /** Limits of the few addresses that have any. */
  readonly #limits = new Map<string, NameLimits>();
  readonly #unsaved = new Set<string>();
  #unsavedLost = 0;
  #saving: Promise<boolean> | undefined;
  #saveTimer: NodeJS.Timeout | undefined;
  #saveProblem: string | undefined;
  #isClosed = false;

  constructor(options: EndpointNamesOptions) {
    const { settings, clock, log } = options;
    this.#options = options;
    this.#settings = settings;
    this.#ranges = new RangesDirectory({ directory: options.rangesDirectory, clock, log });
    this.#dns = new ReverseDns({
      settings: dnsSettings(settings),
      needsProof: (address, hostName) => needsProof(hostName, this.#rangeOf(address)),
      onAnswer: (address) => this.#changed(address),
      clock,
      log,
    });
  }

  async load(): Promise<void> {
    if (this.#settings.enabled && this.#settings.cloudProviderDetection) await this.#ranges.refresh();
    const rows = (await this.#options.store?.load()) ?? [];
    const nowMs = this.#options.clock.wallMs();
    for (const { address, name, method, expiresAtMs } of rows) {
      // Ranges are looked up again, and say nothing about DNS.
      if (method === "provider_range") continue;
      this.#dns.restore(address, name ?? undefined, method === "saas", expiresAtMs - nowMs);
    }
  }

  nameOf(address: string): EndpointName | undefined {
    if (!this.#settings.enabled) return undefined;
    const parsed = parseAddress(address);
    return parsed && !namelessScopes.has(parsed.scope) ? this.#nameOf(parsed) : undefined;
  }

  request(addresses: readonly string[], limits?: ReadonlyMap<string, NameLimits>): void {
    if (!this.#settings.enabled || this.#isClosed) return;
    if (limits || this.#limits.size > 0) for (const address of addresses) this.#limit(address, limits?.get(address));
    if (this.#settings.cloudProviderDetection) background(this.#options.log, "Loading address ranges", this.#ranges.refreshIfDue());
    if (!this.#settings.reverseDns) return;
    for (const address of addresses) {
      const maxAgeMs = limits?.get(address)?.maxCacheMs ?? undefined;
      if (this.#dns.isFresh(address, maxAgeMs)) continue;
      const parsed = parseAddress(address);
      if (parsed && this.#mayResolve(parsed)) this.#dns.request(parsed.knownAs, maxAgeMs);
    }
  }

  #limit(address: string, limits: NameLimits | undefined): void {
    const known = parseAddress(address)?.knownAs ?? address;
    this.#limits.delete(known);
    if (!limits) return;
    if (this.#limits.size >= maxLimited) {
      const [oldest = ""] = this.#limits.keys();
      this.#limits.delete(oldest);
    }
    this.#limits.set(known, limits);
  }

  #limitsOf(address: string): NameLimits {
    return this.#limits.get(address) ?? noLimits;
  }

  reconfigure(settings: EndpointNameSettings): void {
    this.#dns.reconfigure(dnsSettings(settings));
    this.#settings = settings;
    if (settings.enabled && settings.cloudProviderDetection)
      background(this.#options.log, "Loading address ranges", this.#ranges.refreshIfDue());
  }

  stats(): EndpointNamesStats {
    const { prefixCount, sizeBytes } = this.#ranges.table;
    return { dns: this.#dns.stats, ranges: { files: this.#ranges.files, prefixes: prefixCount, sizeBytes }, unsaved: this.#unsavedLost };
  }

  problems(): string[] {
    if (!this.#settings.enabled) return [];
    const { isPaused, queued } = this.#dns.stats;
    return [
      ...(this.#settings.cloudProviderDetection ? this.#ranges.problems : []),
      ...(isPaused ? [`Cannot resolve host names: no DNS server responds; ${queued} addresses are queued`] : []),
      ...(this.#saveProblem === undefined ? [] : [this.#saveProblem]),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#saveTimer);
    await this.#dns[Symbol.asyncDispose]();
    await this.#saving;
    let isSaved = true;
    while (isSaved && this.#unsaved.size > 0) isSaved = await this.#save();
  }

  #nameOf({ knownAs, scope }: Address): EndpointName | undefined {
    const { clock } = this.#options;
    const range = this.#rangeOf(knownAs);
    const limits = this.#limitsOf(knownAs);
    const dns = this.#settings.reverseDns && limits.reverseDns ? this.#dns.get(knownAs) : undefined;
    const chosen = chooseName({ range, hostName: dns?.hostName, isProven: dns?.isProven ?? false });
    if (!chosen) return undefined;
    const isPending = this.#settings.reverseDns && this.#mayResolve({ text: knownAs, knownAs, scope });
    const lastsMs = dns ? dns.validUntilMs - clock.monotonicMs() : isPending ? pendingTtlMs : this.#settings.dnsCacheTtlMs;
    const ageMs = dns ? clock.monotonicMs() - dns.resolvedMs : 0;
    const validForMs = limits.maxCacheMs === null ? lastsMs : Math.min(lastsMs, limits.maxCacheMs - ageMs);
    return { ...chosen, expiresAtMs: clock.wallMs() + Math.max(validForMs, 0) };
  }

  #rangeOf(address: string): RangeLabel | undefined {
    return this.#settings.cloudProviderDetection && this.#limitsOf(address).providerRanges ? this.#ranges.table.lookup(address) : undefined;
  }

  /** Not for ranges of one service: they are more specific than any host name, and a query would leak whom we talk to. */
  #mayResolve({ knownAs, scope }: Address): boolean {
    if (namelessScopes.has(scope) || !this.#limitsOf(knownAs).reverseDns || this.#rangeOf(knownAs)?.kind === "service") return false;
    return scope === "public" || resolvesPrivateAddresses(this.#settings);
  }

  #changed(address: string): void {
    if (!this.#options.store || this.#isClosed) return;
    if (this.#unsaved.size >= maxUnsaved) {
      this.#unsavedLost++;
      return;
    }
    this.#unsaved.add(address);
    this.#saveSoon();
  }

  /** Saves with a delay and one batch at a time, so that a burst of answers is one write. */
  #saveSoon(): void {
    if (this.#saving || this.#isClosed) return;
    this.#saveTimer ??= setTimeout(() => {
      this.#saveTimer = undefined;
      this.#saving = this.#save().finally(() => {
        this.#saving = undefined;
        if (this.#unsaved.size > 0) this.#saveSoon();
      });
      background(this.#options.log, "Saving endpoint names", this.#saving);
    }, saveDelayMs).unref();
  }

  /** False when the store failed; the names are kept for the next attempt. */
  async #save(): Promise<boolean> {
    const addresses = [...this.#unsaved].slice(0, saveBatch);
    for (const address of addresses) this.#unsaved.delete(address);
    try {
      await this.#options.store?.save(addresses.map((address) => this.#row(address)));
      this.#saveProblem = undefined;
      return true;
    } catch (error) {
      const problem = `Cannot save names of external addresses: ${CoralError.from(error).message}`;
      if (this.#saveProblem !== problem) this.#options.log.warn(problem);
      this.#saveProblem = problem;
      for (const address of addresses) this.#unsaved.add(address);
      return false;
    }
  }

  #row(address: string): StoredEndpointName {
    const nowMs = this.#options.clock.wallMs();
    const known = this.nameOf(address);
    const validForMs = (this.#dns.get(address)?.validUntilMs ?? 0) - this.#options.clock.monotonicMs();
    return {
      address,
      name: known?.name ?? null,
      method: known?.method ?? null,
      confidence: known?.confidence ?? 0,
      provider: known?.provider ?? null,
      product: known?.product ?? null,
      region: known?.region ?? null,
      resolvedAtMs: nowMs,
      expiresAtMs: known?.expiresAtMs ?? nowMs + Math.max(validForMs, 0),
    };
  }
}

function dnsSettings({ enabled, reverseDns, dnsServers, dnsCacheTtlMs, dnsTimeoutMs }: EndpointNameSettings): ReverseDnsSettings {
  return { isEnabled: enabled && reverseDns, servers: dnsServers, cacheTtlMs: dnsCacheTtlMs, timeoutMs: dnsTimeoutMs };
}

/** Queries for private addresses stay private: they go to private servers, or to the system's if the config allows it. */
export function resolvesPrivateAddresses(settings: Pick<EndpointNameSettings, "dnsServers" | "privateAddresses">): boolean {
  return settings.dnsServers.length === 0 ? settings.privateAddresses : settings.dnsServers.every(isPrivateServer);
}

/** `10.0.0.2`, `10.0.0.2:5353`, `fd00::2`, `[fd00::2]:53`. */
function isPrivateServer(server: string): boolean {
  const scope = addressScope(/^\[(.*)\](?::\d+)?$/.exec(server)?.[1] ?? server) ?? addressScope(server.replace(/:\d+$/, ""));
  return scope === "private" || scope === "loopback" || scope === "link-local";
}
