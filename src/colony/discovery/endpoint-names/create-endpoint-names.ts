/** Names of addresses outside, out of reverse DNS, known products and providers' ranges. */

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
  /** False: no names at all, and nothing is asked or read. */
  enabled: boolean;
  /** False: names come from ranges only, and nothing is sent to anybody. */
  reverseDns: boolean;
  /** Empty for those of the system. */
  dnsServers: readonly string[];
  dnsCacheTtlMs: number;
  dnsTimeoutMs: number;
  /** Whether the system's servers may be asked for private addresses. Servers of the config are, when they are private themselves. */
  privateAddresses: boolean;
  /** False: ranges are not read. */
  cloudProviderDetection: boolean;
}

/** What is kept over restarts: a row of the table `endpoint_resolution`. */
export interface StoredEndpointName {
  address: string;
  /** Null: there is no name. */
  name: string | null;
  method: EndpointNameMethod | null;
  confidence: number;
  provider: string | null;
  product: string | null;
  region: string | null;
  /** Milliseconds since 1970, both. */
  resolvedAtMs: number;
  expiresAtMs: number;
}

/** Where names are kept over restarts. */
export interface EndpointNameStore {
  /** The newest ones; more than 50,000 are of no use. */
  load(): Promise<readonly StoredEndpointName[]>;
  /** Replaces rows of the same addresses. At most 1,000 at a time, every few seconds, one call at a time. */
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
  /** Answers that could not be stored and were let go. */
  unsaved: number;
}

export interface EndpointNamesService extends EndpointNames {
  /** Takes a changed config at once. Throws `invalid`, and changes nothing, when a DNS server is no address. */
  reconfigure(settings: EndpointNameSettings): void;
  stats(): EndpointNamesStats;
  /** What keeps names from being found, for people: files that cannot be read, servers that do not answer. Empty when all is well. */
  problems(): string[];
}

/** Addresses that mean something only here, or nothing: nobody else can name them. */
const namelessScopes: ReadonlySet<AddressScope> = new Set(["unspecified", "loopback", "link-local", "multicast", "reserved"]);
/** Of a name that may get better as soon as DNS answers. */
const pendingTtlMs = 30_000;
const saveDelayMs = 2_000;
const saveBatch = 1_000;
const maxUnsaved = 10_000;
/** Addresses whose limits are remembered; more are not asked for at a time, and each request says them anew. */
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
  /** Of the few addresses that have any. */
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
      // A range is looked up anew, and says nothing of what DNS knows.
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
    if (this.#settings.cloudProviderDetection) background(this.#options.log, "Looking for address ranges", this.#ranges.look());
    if (!this.#settings.reverseDns) return;
    for (const address of addresses) {
      const maxAgeMs = limits?.get(address)?.maxCacheMs ?? undefined;
      if (this.#dns.isFresh(address, maxAgeMs)) continue;
      const parsed = parseAddress(address);
      if (parsed && this.#mayAsk(parsed)) this.#dns.request(parsed.knownAs, maxAgeMs);
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
      background(this.#options.log, "Looking for address ranges", this.#ranges.look());
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
      ...(isPaused ? [`Cannot ask for host names: no DNS server answers; ${queued} addresses wait`] : []),
      ...(this.#saveProblem === undefined ? [] : [this.#saveProblem]),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#saveTimer);
    await this.#dns[Symbol.asyncDispose]();
    await this.#saving;
    let isTaken = true;
    while (isTaken && this.#unsaved.size > 0) isTaken = await this.#save();
  }

  #nameOf({ knownAs, scope }: Address): EndpointName | undefined {
    const { clock } = this.#options;
    const range = this.#rangeOf(knownAs);
    const limits = this.#limitsOf(knownAs);
    const dns = this.#settings.reverseDns && limits.reverseDns ? this.#dns.get(knownAs) : undefined;
    const chosen = chooseName({ range, hostName: dns?.hostName, isProven: dns?.isProven ?? false });
    if (!chosen) return undefined;
    const asks = this.#settings.reverseDns && this.#mayAsk({ text: knownAs, knownAs, scope });
    const lastsMs = dns ? dns.validUntilMs - clock.monotonicMs() : asks ? pendingTtlMs : this.#settings.dnsCacheTtlMs;
    const ageMs = dns ? clock.monotonicMs() - dns.learntMs : 0;
    const mayLastMs = limits.maxCacheMs === null ? lastsMs : Math.min(lastsMs, limits.maxCacheMs - ageMs);
    return { ...chosen, expiresAtMs: clock.wallMs() + Math.max(mayLastMs, 0) };
  }

  #rangeOf(address: string): RangeLabel | undefined {
    return this.#settings.cloudProviderDetection && this.#limitsOf(address).providerRanges ? this.#ranges.table.lookup(address) : undefined;
  }

  /** A range with one purpose tells more than any host name; asking would only tell others whom we talk to. */
  #mayAsk({ knownAs, scope }: Address): boolean {
    if (namelessScopes.has(scope) || !this.#limitsOf(knownAs).reverseDns || this.#rangeOf(knownAs)?.kind === "service") return false;
    return scope === "public" || asksPrivateAddresses(this.#settings);
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

  /** One batch after the other, so that a burst of answers is one write. */
  #saveSoon(): void {
    if (this.#saving || this.#isClosed) return;
    this.#saveTimer ??= setTimeout(() => {
      this.#saveTimer = undefined;
      this.#saving = this.#save().finally(() => {
        this.#saving = undefined;
        if (this.#unsaved.size > 0) this.#saveSoon();
      });
      background(this.#options.log, "Keeping names", this.#saving);
    }, saveDelayMs).unref();
  }

  /** False when the store would not take them; they stay for the next time. */
  async #save(): Promise<boolean> {
    const addresses = [...this.#unsaved].slice(0, saveBatch);
    for (const address of addresses) this.#unsaved.delete(address);
    try {
      await this.#options.store?.save(addresses.map((address) => this.#row(address)));
      this.#saveProblem = undefined;
      return true;
    } catch (error) {
      const problem = `Cannot keep names of addresses outside: ${CoralError.from(error).message}`;
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

/** Questions about private addresses stay inside: they go to servers that are inside, or to the system's when the config says so. */
export function asksPrivateAddresses(settings: Pick<EndpointNameSettings, "dnsServers" | "privateAddresses">): boolean {
  return settings.dnsServers.length === 0 ? settings.privateAddresses : settings.dnsServers.every(isPrivateServer);
}

/** `10.0.0.2`, `10.0.0.2:5353`, `fd00::2`, `[fd00::2]:53`. */
function isPrivateServer(server: string): boolean {
  const scope = addressScope(/^\[(.*)\](?::\d+)?$/.exec(server)?.[1] ?? server) ?? addressScope(server.replace(/:\d+$/, ""));
  return scope === "private" || scope === "loopback" || scope === "link-local";
}
