/** Checks managed services at their ports, and reports when one becomes unhealthy or healthy. Other services are never probed. */

import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { type ProbeOutcome, type ProbeRequest, probeEndpoint } from "../../transport/index.ts";
import type { ManagedService, ServiceHealth } from "./managed-services.ts";

export interface HealthCheckSettings {
  intervalMs: number;
  timeoutMs: number;
  /** Consecutive failures. */
  unhealthyAfter: number;
  /** Consecutive successes. */
  healthyAfter: number;
}

/** A service became unhealthy, or healthy again. */
export interface HealthChange {
  service: ManagedService;
  before: ServiceHealth["state"];
  after: "healthy" | "unhealthy";
  /** Result of the deciding check. */
  detail: string;
}

export interface HealthChecksOptions {
  services: () => readonly ManagedService[];
  /** Read before each check, so that a reload takes effect. */
  settings: () => HealthCheckSettings;
  /** Local addresses besides loopback on which the scan saw the port listen. Tried when loopback refuses. */
  addressesOf: (port: number) => Promise<readonly string[]>;
  /** The state last reported by an earlier process; decides whether the first result is a change. */
  lastReported: (service: ManagedService) => Promise<ServiceHealth["state"] | undefined>;
  /** Awaited before the next check of the service. */
  report: (change: HealthChange) => Promise<void>;
  clock: Clock;
  log: Logger;
  /** Default: Math.random. */
  random?: () => number;
  /** For tests. Default: probeEndpoint. */
  probe?: (request: ProbeRequest) => Promise<ProbeOutcome>;
}

interface Check {
  service: ManagedService;
  health: ServiceHealth;
  /** Last reported state; undefined until the first decision. */
  reported: ServiceHealth["state"] | undefined;
  isLoaded: boolean;
  failures: number;
  successes: number;
  /** Failed checks since it became unhealthy; determines the backoff. */
  failuresBeyond: number;
  dueMs: number;
  isRunning: boolean;
  lastAddress: string | undefined;
}

/** Concurrent checks. */
const maxConcurrent = 16;
/** Interval until the first decision. */
const firstIntervalMs = 1_000;
/** Longest pause between checks of a failing service. */
const maxIntervalMs = 60_000;
/** Spreads the checks of many services over time. */
const jitterRatio = 0.1;
/** Decisions trigger a scan; many at once trigger one. */
const minDecisionGapMs = 5_000;
const loopbackAddresses = ["127.0.0.1", "::1"];

/** One check per managed TCP port, at its own pace; state changes only after several equal results. */
export class HealthChecks {
  readonly #options: HealthChecksOptions;
  readonly #checks = new Map<number, Check>();
  readonly #slots = new Semaphore(maxConcurrent);
  #wake: (() => void) | undefined;
  #onDecision: () => void = () => undefined;
  #lastDecisionMs = Number.NEGATIVE_INFINITY;

  constructor(options: HealthChecksOptions) {
    this.#options = options;
  }

  /** Undefined for a port that is not managed. */
  healthOf(port: number): ServiceHealth | undefined {
    const service = this.#options.services().find((item) => item.port === port);
    if (service === undefined) return undefined;
    const check = this.#checks.get(port);
    return check !== undefined && isSame(check.service, service) ? check.health : notChecked(service);
  }

  /** Call after services were connected or disconnected: new ones are checked at once. */
  refresh(): void {
    this.#wake?.();
  }

  /**
   * Resolves when aborted and running checks have ended. Calls `onDecision` when a service's state has changed, at most every few seconds:
   * the next scan picks up changes in between.
   */
  async run(signal: AbortSignal, onDecision: () => void = () => undefined): Promise<void> {
    this.#onDecision = onDecision;
    const running = new Set<Promise<void>>();
    while (!signal.aborted) {
      this.#reconcile();
      const nowMs = this.#options.clock.monotonicMs();
      for (const check of this.#checks.values()) {
        if (check.isRunning || check.dueMs > nowMs || check.service.type === "udp") continue;
        check.isRunning = true;
        const done = this.#slots
          .run(() => this.#runCheck(check, signal))
          .finally(() => {
            check.isRunning = false;
            running.delete(done);
            this.#wake?.();
          });
        running.add(done);
      }
      await this.#waitForNext(signal);
    }
    await Promise.allSettled(running);
  }

  /** Adds, removes and resets checks to match the services. */
  #reconcile(): void {
    const services = this.#options.services();
    const ports = new Set(services.map((service) => service.port));
    for (const port of this.#checks.keys()) if (!ports.has(port)) this.#checks.delete(port);
    for (const service of services) {
      const known = this.#checks.get(service.port);
      if (known !== undefined && isSame(known.service, service)) continue;
      this.#checks.set(service.port, {
        service,
        health: notChecked(service),
        reported: undefined,
        isLoaded: false,
        failures: 0,
        successes: 0,
        failuresBeyond: 0,
        dueMs: this.#options.clock.monotonicMs(),
        isRunning: false,
        lastAddress: undefined,
      });
    }
  }

  async #waitForNext(signal: AbortSignal): Promise<void> {
    const nowMs = this.#options.clock.monotonicMs();
    let waitMs = maxIntervalMs;
    for (const check of this.#checks.values()) {
      if (!check.isRunning && check.service.type !== "udp") waitMs = Math.min(waitMs, check.dueMs - nowMs);
    }
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    // Aborted or woken: the loop's condition decides.
    await sleep(Math.max(0, waitMs), AbortSignal.any([signal, woken.signal])).catch(() => undefined);
    this.#wake = undefined;
  }

  async #runCheck(check: Check, signal: AbortSignal): Promise<void> {
    const { clock, log, settings, lastReported } = this.#options;
    try {
      if (!check.isLoaded) {
        check.reported = await lastReported(check.service);
        check.isLoaded = true;
      }
      const outcome = await this.#probe(check, signal);
      // The service was disconnected or changed during the check: drop the result.
      if (this.#checks.get(check.service.port) !== check) return;
      await this.#record(check, outcome);
    } catch (error) {
      if (signal.aborted) return;
      log.error(`Cannot check service "${check.service.name}": ${CoralError.from(error).message}; retrying`, { port: check.service.port });
    }
    const jitter = 1 + jitterRatio * (2 * (this.#options.random ?? Math.random)() - 1);
    check.dueMs = clock.monotonicMs() + nextDelayMs(check, settings()) * jitter;
  }

  /** Tries the last good address, then loopback, then the scanned addresses; moves on only when a connection is refused. */
  async #probe(check: Check, signal: AbortSignal): Promise<ProbeOutcome> {
    const { port } = check.service;
    const firstAddresses = check.lastAddress === undefined ? loopbackAddresses : [check.lastAddress, ...loopbackAddresses];
    let outcome = await this.#probeAddresses(check, firstAddresses, firstAddresses, signal);
    if (isRefused(outcome)) {
      const seen = await this.#options.addressesOf(port);
      const elsewhere = await this.#probeAddresses(check, seen, seen, signal);
      if (elsewhere !== undefined && !isRefused(elsewhere)) outcome = elsewhere;
    }
    if (isRefused(outcome)) check.lastAddress = undefined;
    return outcome ?? { kind: "failed", reason: "refused", detail: "no address" };
  }

  async #probeAddresses(
    check: Check,
    addresses: readonly string[],
    ownAddresses: readonly string[],
    signal: AbortSignal,
  ): Promise<ProbeOutcome | undefined> {
    const { service } = check;
    const { timeoutMs } = this.#options.settings();
    const http = service.health === undefined ? undefined : { path: service.health, tls: service.type === "https" };
    let refused: ProbeOutcome | undefined;
    for (const address of new Set(addresses)) {
      const request = { address, port: service.port, http, timeoutMs, signal, ownAddresses };
      const outcome = await (this.#options.probe ?? probeEndpoint)(request);
      if (!isRefused(outcome)) {
        check.lastAddress = address;
        return outcome;
      }
      refused ??= outcome;
    }
    return refused;
  }

  async #record(check: Check, outcome: ProbeOutcome): Promise<void> {
    const { clock, settings, report } = this.#options;
    const { unhealthyAfter, healthyAfter } = settings();
    const isFine = outcome.kind === "fine";
    check.successes = isFine ? check.successes + 1 : 0;
    check.failures = isFine ? 0 : check.failures + 1;
    const before = check.health.state;
    const isDecided = isFine ? check.successes >= healthyAfter : check.failures >= unhealthyAfter;
    const state = isDecided ? (isFine ? "healthy" : "unhealthy") : before;
    check.failuresBeyond = state === "unhealthy" && !isFine ? check.failuresBeyond + 1 : 0;
    check.health = { state, detail: detailOf(check.service, outcome), checkedAt: new Date(clock.wallMs()).toISOString() };
    if (state !== before) this.#notifyDecision();
    if (!isDecided || (state !== "healthy" && state !== "unhealthy") || check.reported === state) return;
    const reported = check.reported ?? "unknown";
    check.reported = state;
    // Healthy at the first check is not a change.
    if (reported === "unknown" && state === "healthy") return;
    await report({ service: check.service, before: reported, after: state, detail: check.health.detail });
  }

  #notifyDecision(): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - this.#lastDecisionMs < minDecisionGapMs) return;
    this.#lastDecisionMs = nowMs;
    this.#onDecision();
  }
}

function isRefused(outcome: ProbeOutcome | undefined): boolean {
  return outcome?.kind === "failed" && outcome.reason === "refused";
}

/** Milliseconds until the next check, without jitter. */
function nextDelayMs(check: Check, { intervalMs }: HealthCheckSettings): number {
  if (check.health.state === "unknown") return Math.min(intervalMs, firstIntervalMs);
  const ceilingMs = Math.max(maxIntervalMs, intervalMs);
  return Math.min(ceilingMs, intervalMs * 2 ** Math.min(20, Math.max(0, check.failuresBeyond - 1)));
}

function detailOf(service: ManagedService, outcome: ProbeOutcome): string {
  return service.health === undefined || !outcome.detail.startsWith("HTTP ") ? outcome.detail : `${outcome.detail} of ${service.health}`;
}

function notChecked(service: ManagedService): ServiceHealth {
  return { state: "unknown", detail: service.type === "udp" ? "UDP is not checked" : "not checked yet", checkedAt: null };
}

function isSame(a: ManagedService, b: ManagedService): boolean {
  return a.name === b.name && a.port === b.port && a.health === b.health && a.type === b.type;
}
