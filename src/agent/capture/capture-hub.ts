/** Running captures: sends orders to the traffic process and routes its reports to the capture that they belong to. */

import type { CapturedRequest, CaptureOrder } from "../../traffic/index.ts";

export type CaptureReport =
  | CapturedRequest
  | { kind: "capture-ended"; captureId: string; reason: "limit" | "expired" }
  /** The traffic process exited, and its captures with it. */
  | { kind: "capture-lost"; captureId: string };

export interface CaptureHubOptions {
  /** False when there is no traffic process. */
  capture: (order: CaptureOrder) => boolean;
  stopCapture: (captureId: string) => void;
  /** Why no requests are observed; null while hooks run. */
  problem: () => string | null;
  /** The start-up step that must finish before it is known what can be captured; null when all have finished. */
  pendingStep: () => string | null;
}

/** One per agent. The traffic process knows captures by id only; this maps ids to the listeners of RPC calls. */
export class CaptureHub {
  readonly #options: CaptureHubOptions;
  readonly #listeners = new Map<string, (report: CaptureReport) => void>();
  readonly #startWaiters = new Set<() => void>();

  constructor(options: CaptureHubOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#listeners.size;
  }

  get problem(): string | null {
    return this.#options.problem();
  }

  /** Waits for the end of start-up, at most `timeoutMs`. Returns the step still pending, or null. */
  async started(timeoutMs: number, signal: AbortSignal): Promise<string | null> {
    const { pendingStep } = this.#options;
    if (pendingStep() === null) return null;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        this.#startWaiters.delete(end);
        resolve();
      };
      const timer = setTimeout(end, timeoutMs);
      signal.addEventListener("abort", end);
      this.#startWaiters.add(end);
      if (signal.aborted) end();
    });
    return pendingStep();
  }

  /** Call after each start-up step. */
  changed(): void {
    if (this.#options.pendingStep() !== null) return;
    for (const end of this.#startWaiters) end();
  }

  /** Reserves a slot until `stop`; false when `maxRunning` are taken. Synchronous: others may start while this one is being audited. */
  claim(captureId: string, maxRunning: number): boolean {
    if (this.#listeners.size >= maxRunning) return false;
    this.#listeners.set(captureId, () => {});
    return true;
  }

  start(order: CaptureOrder, listener: (report: CaptureReport) => void): void {
    this.#listeners.set(order.captureId, listener);
    if (!this.#options.capture(order)) listener({ kind: "capture-lost", captureId: order.captureId });
  }

  /** Idempotent; the listener is not called afterwards. */
  stop(captureId: string): void {
    if (this.#listeners.delete(captureId)) this.#options.stopCapture(captureId);
  }

  /** Takes a report of the traffic process; reports of ended captures are dropped. */
  accept(report: CapturedRequest | Extract<CaptureReport, { kind: "capture-ended" }>): void {
    this.#listeners.get(report.captureId)?.(report);
  }

  /** Call when the traffic process has exited: all captures fail. */
  lost(): void {
    for (const [captureId, listener] of this.#listeners) listener({ kind: "capture-lost", captureId });
  }
}
