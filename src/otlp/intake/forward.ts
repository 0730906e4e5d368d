/** Forwards requests to another OTLP endpoint, so that Coral can be placed in front of it. Never delays the sender: when the queue is full, requests are dropped and counted. */

import { createBackoff } from "../../base/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { OtlpRequest } from "./receiver.ts";

/** `retry`: try again after at least `afterMs`; `refused`: permanent. */
export type ForwardOutcome = { kind: "sent" } | { kind: "retry"; message: string; afterMs: number } | { kind: "refused"; message: string };

export interface ForwarderOptions {
  /** Rejects like `retry` for an endpoint that cannot be reached. */
  send: (request: OtlpRequest, signal: AbortSignal) => Promise<ForwardOutcome>;
  /** Bytes of bodies that may wait. */
  maxQueueBytes: number;
  /** Concurrent requests. Default 4. */
  concurrency?: number;
  /** A request that could not be sent within this time is dropped. Default 5 min. */
  maxAgeMs?: number;
  clock: Clock;
  log: Logger;
}

/** Counts are since the start. */
export interface ForwardStats {
  sent: number;
  /** Requests that did not fit the queue, or became too old. */
  dropped: number;
  /** Requests that the endpoint rejected. */
  refused: number;
  queuedBytes: number;
  /** The last failure; empty while sending works. */
  problem: string;
}

interface Waiting {
  request: OtlpRequest;
  queuedAtMs: number;
}

/**
 * Each of its lanes sends one request at a time, so requests may arrive out of order. A failed one is retried after 0.5 s to 30 s, or after the time
 * that the endpoint returned.
 */
export class Forwarder implements AsyncDisposable {
  readonly #options: ForwarderOptions;
  readonly #queue: Waiting[] = [];
  readonly #stopped = new AbortController();
  readonly #lanes: Promise<void>[];
  readonly #sleepers = new Set<() => void>();
  #stats: ForwardStats = { sent: 0, dropped: 0, refused: 0, queuedBytes: 0, problem: "" };

  constructor(options: ForwarderOptions) {
    this.#options = options;
    this.#lanes = Array.from({ length: options.concurrency ?? 4 }, () => this.#lane());
  }

  get stats(): ForwardStats {
    return { ...this.#stats };
  }

  /** Queues an accepted request, without copying its body. */
  offer(request: OtlpRequest): void {
    const { maxQueueBytes, clock } = this.#options;
    if (this.#stopped.signal.aborted || this.#stats.queuedBytes + request.body.length > maxQueueBytes) {
      this.#stats.dropped++;
      return;
    }
    this.#stats.queuedBytes += request.body.length;
    // The body is released once the reply is sent, so copy it.
    this.#queue.push({ request: { ...request, body: Buffer.from(request.body) }, queuedAtMs: clock.monotonicMs() });
    const [wake] = this.#sleepers;
    wake?.();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort();
    for (const wake of this.#sleepers) wake();
    await Promise.all(this.#lanes);
    this.#stats.dropped += this.#queue.splice(0).length;
  }

  async #lane(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const waiting = this.#queue.shift();
      if (waiting === undefined) {
        await this.#sleep();
        continue;
      }
      await this.#deliver(waiting);
      this.#stats.queuedBytes -= waiting.request.body.length;
    }
  }

  async #deliver({ request, queuedAtMs }: Waiting): Promise<void> {
    const { clock, log, maxAgeMs = 5 * 60_000 } = this.#options;
    const backoff = createBackoff({ initialMs: 500, maxMs: 30_000 });
    for (;;) {
      const outcome = await this.#attempt(request);
      if (outcome.kind === "sent") {
        this.#stats.sent++;
        this.#stats.problem = "";
        return;
      }
      if (this.#stats.problem !== outcome.message)
        log.warn(`cannot forward OTLP requests: ${outcome.message}; ${outcome.kind === "refused" ? "dropping the request" : "retrying"}`);
      this.#stats.problem = outcome.message;
      if (outcome.kind === "refused") {
        this.#stats.refused++;
        return;
      }
      if (this.#stopped.signal.aborted || clock.monotonicMs() - queuedAtMs > maxAgeMs) {
        this.#stats.dropped++;
        return;
      }
      await this.#sleep(Math.max(outcome.afterMs, backoff.nextMs()));
    }
  }

  async #attempt(request: OtlpRequest): Promise<ForwardOutcome> {
    try {
      return await this.#options.send(request, this.#stopped.signal);
    } catch (error) {
      return { kind: "retry", message: error instanceof Error ? error.message : String(error), afterMs: 0 };
    }
  }

  /** Waits until the given time, or until there is work; ends early on shutdown. */
  #sleep(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#stopped.signal.aborted) {
        resolve();
        return;
      }
      let timer: NodeJS.Timeout | undefined;
      const wake = (): void => {
        clearTimeout(timer);
        this.#sleepers.delete(wake);
        this.#stopped.signal.removeEventListener("abort", wake);
        resolve();
      };
      if (ms === undefined) this.#sleepers.add(wake);
      else {
        timer = setTimeout(wake, ms);
        this.#stopped.signal.addEventListener("abort", wake);
      }
    });
  }
}
