/** Posts incidents to the configured URL, in its own loop, so that a slow or dead receiver never delays the watch. */

import { createHmac } from "node:crypto";
import { createBackoff } from "../../base/backoff.ts";
import { sleep } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";

interface WebhookTarget {
  url: string;
  secret: string | null;
}

export interface WebhookOptions {
  /** Null: not configured. Read for each delivery, so that a reload takes effect. */
  target: () => WebhookTarget | null;
  log: Logger;
  /** Milliseconds before the first retry; default 1 s. */
  retryMs?: number;
}

/** Maximum queued deliveries; the oldest are dropped. */
const waitingMax = 100;
const attemptsMax = 6;
const timeoutMs = 10_000;
const retryMaxMs = 60_000;

export class Webhook {
  readonly #options: WebhookOptions;
  readonly #waiting: { event: string; body: string }[] = [];
  #wake: (() => void) | undefined;
  #dropped = 0;

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  /** Returns at once. */
  send(event: string, payload: Record<string, unknown>): void {
    if (this.#options.target() === null) return;
    this.#waiting.push({ event, body: JSON.stringify({ event, ...payload }) });
    if (this.#waiting.length > waitingMax) {
      this.#waiting.shift();
      this.#dropped++;
    }
    this.#wake?.();
  }

  /** Delivers in order until aborted. Queued deliveries are lost then. */
  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener("abort", () => this.#wake?.(), { once: true });
    while (!signal.aborted) {
      const next = this.#waiting.shift();
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      if (this.#dropped > 0) {
        this.#options.log.warn(`dropped ${this.#dropped} webhook deliveries: more than ${waitingMax} queued`);
        this.#dropped = 0;
      }
      await this.#deliver(next, signal);
    }
  }

  async #deliver({ event, body }: { event: string; body: string }, signal: AbortSignal): Promise<void> {
    const { target, log, retryMs = 1_000 } = this.#options;
    const backoff = createBackoff({ initialMs: retryMs, maxMs: retryMaxMs });
    let problem = "";
    for (let attempt = 0; attempt < attemptsMax && !signal.aborted; attempt++) {
      const to = target();
      if (to === null) return;
      const outcome = await post(to, event, body, signal);
      if (outcome === null) return;
      problem = outcome.problem;
      if (outcome.isFinal) break;
      if (attempt + 1 < attemptsMax) await sleep(backoff.nextMs(), signal).catch(() => undefined); // aborted: the loop ends
    }
    if (!signal.aborted) log.warn(`cannot deliver ${event} to the webhook: ${problem}; giving up, check incidents.webhook in colony.yaml`);
  }
}

/** Null: delivered. `isFinal`: rejected by the receiver; a retry would not help. */
async function post(
  { url, secret }: WebhookTarget,
  event: string,
  body: string,
  signal: AbortSignal,
): Promise<{ problem: string; isFinal: boolean } | null> {
  const headers: Record<string, string> = { "content-type": "application/json", "user-agent": "coral", "x-coral-event": event };
  if (secret !== null) headers["x-coral-signature"] = `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
  try {
    // A redirect could lead anywhere: only the configured URL gets data.
    const response = await fetch(url, {
      method: "POST",
      headers,
      body,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    await response.body?.cancel();
    if (response.ok) return null;
    const isFinal = response.status < 500 && response.status !== 408 && response.status !== 429;
    return { problem: `the receiver returned status ${response.status}`, isFinal };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    return { problem: cause, isFinal: false };
  }
}
