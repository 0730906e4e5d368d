/** Captures that run now: hands orders to the traffic process and its reports to whoever asked. */

import type { CapturedRequest, CaptureOrder } from "../../traffic/index.ts";

export type CaptureReport =
  | CapturedRequest
  | { kind: "capture-ended"; captureId: string; reason: "limit" | "expired" }
  /** The traffic process is gone, and what it followed with it. */
  | { kind: "capture-lost"; captureId: string };

export interface CaptureHubOptions {
  /** False when there is no traffic process. */
  capture: (order: CaptureOrder) => boolean;
  stopCapture: (captureId: string) => void;
  /** Why no request can be seen now; null while hooks run. */
  problem: () => string | null;
  /** What has yet to come since the agent was started, before it is known what can be captured; null when all has. */
  awaited: () => string | null;
}

export class CaptureHub {
  readonly #options: CaptureHubOptions;
  readonly #listeners = new Map<string, (report: CaptureReport) => void>();
  readonly #waiters = new Set<() => void>();

  constructor(options: CaptureHubOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#listeners.size;
  }

  get problem(): string | null {
    return this.#options.problem();
  }

  /** Waits until the agent has started to the end, `timeoutMs` at the most; then what it still waits for, null when nothing. */
  async started(timeoutMs: number, signal: AbortSignal): Promise<string | null> {
    const { awaited } = this.#options;
    if (awaited() === null) return null;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        this.#waiters.delete(end);
        resolve();
      };
      const timer = setTimeout(end, timeoutMs);
      signal.addEventListener("abort", end);
      this.#waiters.add(end);
      if (signal.aborted) end();
    });
    return awaited();
  }

  /** To be called whenever something may have come that was awaited. */
  changed(): void {
    if (this.#options.awaited() !== null) return;
    for (const end of this.#waiters) end();
  }

  /** Takes a place for a capture, until `stop`; false when `maxRunning` have one. At once, because others are asked for while one is audited. */
  claim(captureId: string, maxRunning: number): boolean {
    if (this.#listeners.size >= maxRunning) return false;
    this.#listeners.set(captureId, () => {});
    return true;
  }

  start(order: CaptureOrder, listener: (report: CaptureReport) => void): void {
    this.#listeners.set(order.captureId, listener);
    if (!this.#options.capture(order)) listener({ kind: "capture-lost", captureId: order.captureId });
  }

  /** Idempotent; nothing is heard of it afterwards. */
  stop(captureId: string): void {
    if (this.#listeners.delete(captureId)) this.#options.stopCapture(captureId);
  }

  /** From the traffic process; reports of captures that are over are left alone. */
  accept(report: CapturedRequest | Extract<CaptureReport, { kind: "capture-ended" }>): void {
    this.#listeners.get(report.captureId)?.(report);
  }

  /** The traffic process has ended: so have all captures. */
  lost(): void {
    for (const [captureId, listener] of this.#listeners) listener({ kind: "capture-lost", captureId });
  }
}
