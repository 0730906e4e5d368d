/**
 * Host names of addresses, resolved in the background and cached. The queue, the queries in flight and the cache are bounded.
 *
 * Names are not generally checked by forward lookup: that doubles the queries, and most names carry no trust. Only a name that claims to be a
 * well-known product must resolve back to its address, see `needsProof`.
 */

import { Resolver } from "node:dns/promises";
import { background } from "../../../base/background.ts";
import type { Clock } from "../../../base/clock.ts";
import { CoralError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import { canonicalAddress, reverseName } from "./address-scope.ts";
import { cleanHostName } from "./host-name.ts";

export interface ReverseDnsSettings {
  isEnabled: boolean;
  /** `10.0.0.2`, `10.0.0.2:5353`, `[2001:db8::1]:53`; empty: the system's servers. */
  servers: readonly string[];
  /** How long a name is valid. */
  cacheTtlMs: number;
  /** Timeout of the first attempt; the second waits twice as long. */
  timeoutMs: number;
}

export interface ReverseDnsOptions {
  settings: ReverseDnsSettings;
  /** Whether a name may be used only if it resolves back to the address. */
  needsProof(address: string, hostName: string): boolean;
  /** Called after each final answer: a name, or none. */
  onAnswer?(address: string): void;
  clock: Clock;
  log: Logger;
}

/** The answer for one address. */
export interface ReverseDnsAnswer {
  /** Undefined without a usable name. */
  hostName: string | undefined;
  isProven: boolean;
  /** Monotonic. */
  resolvedMs: number;
  /** Monotonic time after which it may be resolved again; the answer stays in use until the next one. */
  validUntilMs: number;
}

interface Entry extends ReverseDnsAnswer {
  /** Consecutive failed queries. */
  failures: number;
}

export interface ReverseDnsStats {
  cached: number;
  queued: number;
  inFlight: number;
  /** PTR queries sent; forward lookups are not counted. */
  queries: number;
  named: number;
  /** Answers without a name. */
  absent: number;
  /** Timeouts and malformed answers. */
  failed: number;
  /** Invalid host names, and unproven names of products. */
  rejectedNames: number;
  /** Requests dropped because the queue was full. */
  dropped: number;
  /** Answers evicted by newer ones. */
  evicted: number;
  /** Whether no server answers and queries are throttled. */
  isPaused: boolean;
}

const concurrency = 8;
const maxQueued = 10_000;
const maxCached = 50_000;
/** Names considered per address; some have hundreds. */
const maxNames = 8;
const maxNegativeTtlMs = 15 * 60_000;
const firstRetryMs = 60_000;
/** Consecutive failures after which queries pause. */
const failuresUntilPause = 16;
const pauseMs = 30_000;
/** Answers that mean "no such name". All other errors are failures. */
const absentCodes = new Set(["ENOTFOUND", "ENODATA"]);

export class ReverseDns implements AsyncDisposable {
  readonly #options: ReverseDnsOptions;
  #settings: ReverseDnsSettings;
  #resolver: Resolver;
  readonly #entries = new Map<string, Entry>();
  readonly #queue = new Set<string>();
  readonly #inFlight = new Map<string, Promise<void>>();
  readonly #counts = { queries: 0, named: 0, absent: 0, failed: 0, rejectedNames: 0, dropped: 0, evicted: 0 };
  #failuresInRow = 0;
  #pausedUntilMs = 0;
  #isClosed = false;

  /** Throws `invalid` if a server is not an address. */
  constructor(options: ReverseDnsOptions) {
    this.#options = options;
    this.#settings = options.settings;
    this.#resolver = createResolver(options.settings);
  }

  get stats(): ReverseDnsStats {
    return {
      cached: this.#entries.size,
      queued: this.#queue.size,
      inFlight: this.#inFlight.size,
      ...this.#counts,
      isPaused: this.#failuresInRow >= failuresUntilPause,
    };
  }

  /** The cached answer, expired or not. `address` is canonical, here and below. */
  get(address: string): ReverseDnsAnswer | undefined {
    return this.#entries.get(address);
  }

  /** Whether the cached answer is valid and at most `maxAgeMs` old. A failure is fresh until its retry is due. */
  isFresh(address: string, maxAgeMs = Number.POSITIVE_INFINITY): boolean {
    const entry = this.#entries.get(address);
    if (entry === undefined) return false;
    const nowMs = this.#options.clock.monotonicMs();
    return entry.validUntilMs > nowMs && (entry.failures > 0 || entry.resolvedMs + maxAgeMs > nowMs);
  }

  /** Whether a query is queued or in flight. */
  isPending(address: string): boolean {
    return this.#queue.has(address) || this.#inFlight.has(address);
  }

  /** Resolves in the background, unless the answer is fresh or pending, or reverse DNS is disabled. */
  request(address: string, maxAgeMs?: number): void {
    if (this.#isClosed || !this.#settings.isEnabled || this.isPending(address) || this.isFresh(address, maxAgeMs)) return;
    if (this.#queue.size >= maxQueued) {
      this.#counts.dropped++;
      return;
    }
    this.#queue.add(address);
    this.#pump();
  }

  /** Restores an answer of an earlier process. With a negative `validForMs` it is used until there is a new one. */
  restore(address: string, hostName: string | undefined, isProven: boolean, validForMs: number): void {
    const clean = hostName === undefined ? undefined : cleanHostName(hostName);
    if (hostName !== undefined && clean === undefined) return;
    const longestMs = clean === undefined ? Math.min(maxNegativeTtlMs, this.#settings.cacheTtlMs) : this.#settings.cacheTtlMs;
    const validUntilMs = this.#options.clock.monotonicMs() + Math.min(validForMs, longestMs);
    this.#remember(address, { hostName: clean, isProven, resolvedMs: validUntilMs - longestMs, validUntilMs, failures: 0 });
  }

  /** Throws `invalid`, and changes nothing, if a server is not an address. New servers may know more: addresses without a name are forgotten. */
  reconfigure(settings: ReverseDnsSettings): void {
    const resolver = createResolver(settings);
    const previous = this.#resolver;
    const haveServersChanged = settings.servers.join() !== this.#settings.servers.join();
    this.#resolver = resolver;
    this.#settings = settings;
    this.#failuresInRow = this.#pausedUntilMs = 0;
    if (!settings.isEnabled) this.#queue.clear();
    if (haveServersChanged) {
      for (const [address, { hostName }] of this.#entries) if (hostName === undefined) this.#entries.delete(address);
    }
    previous.cancel();
    this.#pump();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#queue.clear();
    this.#resolver.cancel();
    await Promise.allSettled(this.#inFlight.values());
  }

  #pump(): void {
    const limit = this.#failuresInRow >= failuresUntilPause ? 1 : concurrency;
    while (!this.#isClosed && this.#inFlight.size < limit && this.#options.clock.monotonicMs() >= this.#pausedUntilMs) {
      const [address] = this.#queue;
      if (address === undefined) return;
      this.#queue.delete(address);
      const resolving = this.#resolve(address).finally(() => {
        this.#inFlight.delete(address);
        this.#pump();
      });
      this.#inFlight.set(address, resolving);
      background(this.#options.log, "Resolving a host name", resolving);
    }
  }

  async #resolve(address: string): Promise<void> {
    const resolver = this.#resolver;
    const zone = reverseName(address);
    if (zone === undefined) return;
    this.#counts.queries++;
    try {
      const names = await resolver.resolvePtr(zone);
      const found = await this.#usableName(resolver, address, names);
      this.#answered();
      this.#counts[found ? "named" : "absent"]++;
      this.#store(address, found?.hostName, found?.isProven ?? false);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      // Cancelled by a reconfiguration or by closing: no answer; the next request for the address resolves it.
      if (this.#isClosed || resolver !== this.#resolver) return;
      if (absentCodes.has(code)) {
        this.#answered();
        this.#counts.absent++;
        this.#store(address, undefined, false);
      } else this.#failed(address, code);
    }
  }

  /** The first usable name in alphabetical order: servers rotate names, and the name must not change with each answer. */
  async #usableName(
    resolver: Resolver,
    address: string,
    names: readonly string[],
  ): Promise<{ hostName: string; isProven: boolean } | undefined> {
    const clean = names.slice(0, maxNames).map(cleanHostName);
    this.#counts.rejectedNames += clean.filter((name) => name === undefined).length;
    for (const hostName of clean.filter((name) => name !== undefined).sort()) {
      if (!this.#options.needsProof(address, hostName)) return { hostName, isProven: false };
      if (await resolvesBack(resolver, hostName, address)) return { hostName, isProven: true };
      this.#counts.rejectedNames++;
    }
    return undefined;
  }

  #store(address: string, hostName: string | undefined, isProven: boolean): void {
    const ttlMs = hostName === undefined ? Math.min(maxNegativeTtlMs, this.#settings.cacheTtlMs) : this.#settings.cacheTtlMs;
    const resolvedMs = this.#options.clock.monotonicMs();
    this.#remember(address, { hostName, isProven, resolvedMs, validUntilMs: resolvedMs + ttlMs, failures: 0 });
    this.#options.onAnswer?.(address);
  }

  /** Keeps a known name, and backs off exponentially. */
  #failed(address: string, code: string): void {
    const { clock, log } = this.#options;
    this.#counts.failed++;
    const before = this.#entries.get(address);
    const failures = (before?.failures ?? 0) + 1;
    const waitMs = Math.max(firstRetryMs, Math.min(firstRetryMs * 2 ** (failures - 1), this.#settings.cacheTtlMs));
    this.#remember(address, {
      hostName: before?.hostName,
      isProven: before?.isProven ?? false,
      resolvedMs: before?.resolvedMs ?? clock.monotonicMs(),
      validUntilMs: clock.monotonicMs() + waitMs,
      failures,
    });
    if (++this.#failuresInRow < failuresUntilPause) return;
    if (this.#failuresInRow === failuresUntilPause)
      log.warn("No DNS server responds; external addresses stay unnamed until one does", { code });
    this.#pausedUntilMs = clock.monotonicMs() + pauseMs;
    // The host may have changed networks: read the system's servers again.
    this.#resolver = createResolver(this.#settings);
    setTimeout(() => this.#pump(), pauseMs).unref();
  }

  #answered(): void {
    if (this.#failuresInRow >= failuresUntilPause) this.#options.log.info("DNS servers respond again");
    this.#failuresInRow = this.#pausedUntilMs = 0;
  }

  #remember(address: string, entry: Entry): void {
    this.#entries.delete(address);
    if (this.#entries.size >= maxCached) {
      const [oldest = ""] = this.#entries.keys();
      this.#entries.delete(oldest);
      this.#counts.evicted++;
    }
    this.#entries.set(address, entry);
  }
}

function createResolver({ servers, timeoutMs }: ReverseDnsSettings): Resolver {
  const resolver = new Resolver({ timeout: timeoutMs, tries: 2 });
  if (servers.length === 0) return resolver;
  try {
    resolver.setServers([...servers]);
  } catch (error) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot use DNS servers ${JSON.stringify(servers)}: use addresses such as 10.0.0.2, 10.0.0.2:5353 or [2001:db8::1]:53`,
      cause: error,
    });
  }
  return resolver;
}

/** False also on failure: the claim is unproven then. */
async function resolvesBack(resolver: Resolver, hostName: string, address: string): Promise<boolean> {
  try {
    const addresses = address.includes(":") ? await resolver.resolve6(hostName) : await resolver.resolve4(hostName);
    return addresses.some((other) => canonicalAddress(other) === address);
  } catch {
    return false; // whatever the reason, the name is unproven
  }
}
