/** Measures the throughput of an agent's link from recent pulls. A slow link keeps contact, so nothing else reveals it. */

import type { AgentLink } from "../registry/agent-link.ts";

interface Sample {
  tookMs: number;
  bytes: number;
}

const samplesMax = 5;
/** Smaller answers measure the round trip, not the link. */
const minBytes = 2_048;
/** Faster answers keep up with any interval, whatever their rate. */
const slowMs = 500;
/** 128 kbit/s. */
const slowBytesPerSecond = 16_000;
/** Size of the first pull: a large answer on a slow link would still occupy it after the timeout. */
const firstBatchBytes = 32 * 1024;
/** Least size of a pull: a few rows of every signal. */
const leastBatchBytes = 8 * 1024;
/** Share of the timeout that an answer should take. */
const targetShare = 0.25;

export class LinkSpeed {
  readonly #samples: Sample[] = [];
  /** Doubled by each full answer that arrives in time. */
  #batchBytes = firstBatchBytes;

  /** Undefined until there are enough pulls. */
  get reading(): AgentLink | undefined {
    if (this.#samples.length < samplesMax) return undefined;
    const totalMs = this.#samples.reduce((total, { tookMs }) => total + tookMs, 0);
    const totalBytes = this.#samples.reduce((total, { bytes }) => total + bytes, 0);
    const pullMs = totalMs / samplesMax;
    const bytesPerSecond = totalBytes / (Math.max(1, totalMs) / 1_000);
    const isSlow = pullMs >= slowMs && bytesPerSecond < slowBytesPerSecond;
    return {
      isSlow,
      pullMs: Math.round(pullMs),
      pullBytes: Math.round(totalBytes / samplesMax),
      bytesPerSecond: Math.round(bytesPerSecond),
    };
  }

  /** Bytes to request, at most `maxBytes`. */
  batchBytes(maxBytes: number): number {
    return Math.min(maxBytes, this.#batchBytes);
  }

  answered({ tookMs, bytes }: Sample, timeoutMs: number): void {
    // A small answer does not prove that larger ones arrive in time.
    if (tookMs < timeoutMs * targetShare && bytes >= this.#batchBytes / 2) this.#batchBytes *= 2;
    if (bytes < minBytes && tookMs < slowMs) return;
    this.#samples.push({ tookMs, bytes });
    if (this.#samples.length > samplesMax) this.#samples.shift();
  }

  /** An answer of `maxBytes` timed out, so request less. */
  timedOut(maxBytes: number): void {
    this.#batchBytes = Math.max(leastBatchBytes, Math.min(firstBatchBytes, this.batchBytes(maxBytes) / 2));
  }
}
