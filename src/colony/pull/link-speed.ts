/** How fast an agent's answers come, from the last pulls: a link that is slow loses no contact, so that nothing else shows it. */

import type { AgentLink } from "../registry/agent-link.ts";

interface Sample {
  tookMs: number;
  bytes: number;
}

const samplesMax = 5;
/** Smaller answers measure the round trip, not the link. */
const minBytes = 2_048;
/** Answers that come sooner keep up with any interval, whatever their rate. */
const slowMs = 500;
/** 128 kbit/s. */
const slowBytesPerSecond = 16_000;
/** What the first pull asks for: a slow link must not be filled with what nobody waits for any more. */
const firstBatchBytes = 32 * 1024;
/** What a pull asks for at least: a few rows of every signal. */
const leastBatchBytes = 8 * 1024;
/** Share of the timeout that an answer should take. */
const targetShare = 0.25;

export class LinkSpeed {
  readonly #samples: Sample[] = [];
  /** Doubled by each answer that fills it and comes in good time. */
  #batchBytes = firstBatchBytes;

  /** Undefined until there are enough pulls to judge by. */
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

  /** How many bytes to ask for, `maxBytes` at most. */
  batchBytes(maxBytes: number): number {
    return Math.min(maxBytes, this.#batchBytes);
  }

  answered({ tookMs, bytes }: Sample, timeoutMs: number): void {
    // Small answers show nothing about larger ones.
    if (tookMs < timeoutMs * targetShare && bytes >= this.#batchBytes / 2) this.#batchBytes *= 2;
    if (bytes < minBytes && tookMs < slowMs) return;
    this.#samples.push({ tookMs, bytes });
    if (this.#samples.length > samplesMax) this.#samples.shift();
  }

  /** An answer of `maxBytes` did not arrive in time: the same again would not either. */
  timedOut(maxBytes: number): void {
    this.#batchBytes = Math.max(leastBatchBytes, Math.min(firstBatchBytes, this.batchBytes(maxBytes) / 2));
  }
}
