/**
 * Host names of addresses, asked in the background and remembered. Asking is bounded everywhere: in the queue, on the wire, in what is kept.
 *
 * Names are not led back to their addresses in general: that doubles the questions, and for a name that nobody trusts it changes nothing. Only
 * a name that claims to be a well-known product has to prove it, see `needsProof`.
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
  /** `10.0.0.2`, `10.0.0.2:5353`, `[2001:db8::1]:53`; empty for those of the system. */
  servers: readonly string[];
  /** How long a name holds. */
  cacheTtlMs: number;
  /** Of the first try; the second waits twice as long. */
  timeoutMs: number;
}

export interface ReverseDnsOptions {
  settings: ReverseDnsSettings;
  /** Whether a name may be used only when it leads back to the address. */
  needsProof(address: string, hostName: string): boolean;
  /** After each final answer: a name, or that there is none. */
  onAnswer?(address: string): void;
  clock: Clock;
  log: Logger;
}

/** What was learnt of an address. */
export interface ReverseDnsAnswer {
  /** Undefined when there is none, or none that can be used. */
  hostName: string | undefined;
  isProven: boolean;
  /** Monotonic. */
  learntMs: number;
  /** Monotonic time from which on it is asked again; the answer stays in use until then and until there is another. */
  validUntilMs: number;
}

interface Entry extends ReverseDnsAnswer {
  /** Times in a row that nobody answered. */
  failures: number;
}

export interface ReverseDnsStats {
  cached: number;
  queued: number;
  inFlight: number;
  /** Questions sent, proofs not counted. */
  asked: number;
  named: number;
  /** The zone says that there is no name. */
  absent: number;
  /** Nobody answered, or with nonsense. */
  failed: number;
  /** Names that were no host names, or claimed a product and did not lead back. */
  refusedNames: number;
  /** Requests for which the queue had no room. */
  dropped: number;
  /** Answers that had to go for newer ones. */
  evicted: number;
  /** Whether no server answers, so that few questions are sent. */
  isPaused: boolean;
}

const concurrency = 8;
const maxQueued = 10_000;
const maxCached = 50_000;
/** Names of one address that are looked at; some have hundreds. */
const maxNames = 8;
const maxNegativeTtlMs = 15 * 60_000;
const firstRetryMs = 60_000;
/** Failures in a row after which servers count as away, and how long they are then left alone. */
const failuresUntilPause = 16;
const pauseMs = 30_000;
/** The zone answered: no such name. Everything else is a failure to answer. */
const absentCodes = new Set(["ENOTFOUND", "ENODATA"]);

export class ReverseDns implements AsyncDisposable {
  readonly #options: ReverseDnsOptions;
  #settings: ReverseDnsSettings;
  #resolver: Resolver;
  readonly #entries = new Map<string, Entry>();
  readonly #queue = new Set<string>();
  readonly #inFlight = new Map<string, Promise<void>>();
  readonly #counts = { asked: 0, named: 0, absent: 0, failed: 0, refusedNames: 0, dropped: 0, evicted: 0 };
  #failuresInRow = 0;
  #pausedUntilMs = 0;
  #isClosed = false;

  /** Throws `invalid` when a server is no address. */
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

  /** What is known, expired or not. `address` is canonical, here and below. */
  get(address: string): ReverseDnsAnswer | undefined {
    return this.#entries.get(address);
  }

  /** Whether asking again would bring nothing new yet. An answer may be at most `maxAgeMs` old; that nobody answered counts for its own time. */
  isFresh(address: string, maxAgeMs = Number.POSITIVE_INFINITY): boolean {
    const entry = this.#entries.get(address);
    if (entry === undefined) return false;
    const nowMs = this.#options.clock.monotonicMs();
    return entry.validUntilMs > nowMs && (entry.failures > 0 || entry.learntMs + maxAgeMs > nowMs);
  }

  /** Whether an answer is on its way. */
  isPending(address: string): boolean {
    return this.#queue.has(address) || this.#inFlight.has(address);
  }

  /** Asks in the background, unless the answer is fresh, on its way, or reverse DNS is off. */
  request(address: string, maxAgeMs?: number): void {
    if (this.#isClosed || !this.#settings.isEnabled || this.isPending(address) || this.isFresh(address, maxAgeMs)) return;
    if (this.#queue.size >= maxQueued) {
      this.#counts.dropped++;
      return;
    }
    this.#queue.add(address);
    this.#pump();
  }

  /** Takes what an earlier process learnt. `validForMs` may be negative: then it is used until there is a new answer. */
  restore(address: string, hostName: string | undefined, isProven: boolean, validForMs: number): void {
    const clean = hostName === undefined ? undefined : cleanHostName(hostName);
    if (hostName !== undefined && clean === undefined) return;
    const longestMs = clean === undefined ? Math.min(maxNegativeTtlMs, this.#settings.cacheTtlMs) : this.#settings.cacheTtlMs;
    const validUntilMs = this.#options.clock.monotonicMs() + Math.min(validForMs, longestMs);
    this.#remember(address, { hostName: clean, isProven, learntMs: validUntilMs - longestMs, validUntilMs, failures: 0 });
  }

  /** Throws `invalid`, and changes nothing, when a server is no address. Other servers may know other names: what had none is forgotten. */
  reconfigure(settings: ReverseDnsSettings): void {
    const resolver = createResolver(settings);
    const previous = this.#resolver;
    const areServersOther = settings.servers.join() !== this.#settings.servers.join();
    this.#resolver = resolver;
    this.#settings = settings;
    this.#failuresInRow = this.#pausedUntilMs = 0;
    if (!settings.isEnabled) this.#queue.clear();
    if (areServersOther) {
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
      const asking = this.#ask(address).finally(() => {
        this.#inFlight.delete(address);
        this.#pump();
      });
      this.#inFlight.set(address, asking);
      background(this.#options.log, "Asking for a host name", asking);
    }
  }

  async #ask(address: string): Promise<void> {
    const resolver = this.#resolver;
    const zone = reverseName(address);
    if (zone === undefined) return;
    this.#counts.asked++;
    try {
      const names = await resolver.resolvePtr(zone);
      const found = await this.#usableName(resolver, address, names);
      this.#answered();
      this.#counts[found ? "named" : "absent"]++;
      this.#learn(address, found?.hostName, found?.isProven ?? false);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      // Other settings, or the end: the question was not answered, and is asked anew when the address comes again.
      if (this.#isClosed || resolver !== this.#resolver) return;
      if (absentCodes.has(code)) {
        this.#answered();
        this.#counts.absent++;
        this.#learn(address, undefined, false);
      } else this.#failed(address, code);
    }
  }

  /** In order of the alphabet: servers rotate several names, and an address must not change its name with each answer. */
  async #usableName(
    resolver: Resolver,
    address: string,
    names: readonly string[],
  ): Promise<{ hostName: string; isProven: boolean } | undefined> {
    const clean = names.slice(0, maxNames).map(cleanHostName);
    this.#counts.refusedNames += clean.filter((name) => name === undefined).length;
    for (const hostName of clean.filter((name) => name !== undefined).sort()) {
      if (!this.#options.needsProof(address, hostName)) return { hostName, isProven: false };
      if (await leadsBack(resolver, hostName, address)) return { hostName, isProven: true };
      this.#counts.refusedNames++;
    }
    return undefined;
  }

  #learn(address: string, hostName: string | undefined, isProven: boolean): void {
    const ttlMs = hostName === undefined ? Math.min(maxNegativeTtlMs, this.#settings.cacheTtlMs) : this.#settings.cacheTtlMs;
    const learntMs = this.#options.clock.monotonicMs();
    this.#remember(address, { hostName, isProven, learntMs, validUntilMs: learntMs + ttlMs, failures: 0 });
    this.#options.onAnswer?.(address);
  }

  /** A name that was known stays in use; the next try comes later each time. */
  #failed(address: string, code: string): void {
    const { clock, log } = this.#options;
    this.#counts.failed++;
    const before = this.#entries.get(address);
    const failures = (before?.failures ?? 0) + 1;
    const waitMs = Math.max(firstRetryMs, Math.min(firstRetryMs * 2 ** (failures - 1), this.#settings.cacheTtlMs));
    this.#remember(address, {
      hostName: before?.hostName,
      isProven: before?.isProven ?? false,
      learntMs: before?.learntMs ?? clock.monotonicMs(),
      validUntilMs: clock.monotonicMs() + waitMs,
      failures,
    });
    if (++this.#failuresInRow < failuresUntilPause) return;
    if (this.#failuresInRow === failuresUntilPause) log.warn("No DNS server answers; names of addresses outside have to wait", { code });
    this.#pausedUntilMs = clock.monotonicMs() + pauseMs;
    // The machine may have come to another network: the system's servers are read anew.
    this.#resolver = createResolver(this.#settings);
    setTimeout(() => this.#pump(), pauseMs).unref();
  }

  #answered(): void {
    if (this.#failuresInRow >= failuresUntilPause) this.#options.log.info("DNS servers answer again");
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
      message: `Cannot use DNS servers ${JSON.stringify(servers)}: write addresses such as 10.0.0.2, 10.0.0.2:5353 or [2001:db8::1]:53`,
      cause: error,
    });
  }
  return resolver;
}

/** False also when nobody answers: an unproven claim is worth nothing. */
async function leadsBack(resolver: Resolver, hostName: string, address: string): Promise<boolean> {
  try {
    const addresses = address.includes(":") ? await resolver.resolve6(hostName) : await resolver.resolve4(hostName);
    return addresses.some((other) => canonicalAddress(other) === address);
  } catch {
    return false; // whatever the reason, the name did not lead back
  }
}
