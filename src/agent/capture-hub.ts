/** Captures that run now: hands orders to the traffic process and its reports to whoever asked. */

import type { CapturedRequest, CaptureOrder } from "../traffic/index.ts";

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
}

export class CaptureHub {
  readonly #options: CaptureHubOptions;
  readonly #listeners = new Map<string, (report: CaptureReport) => void>();

  constructor(options: CaptureHubOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#listeners.size;
  }

  get problem(): string | null {
    return this.#options.problem();
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
