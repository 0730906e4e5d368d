/**
 * Requests that come again. A sender that got no answer in time sends the very same bytes once more, and counts must not double by it. Ids and
 * times make any two requests different, so equal bytes are the same request.
 */

import { createHash } from "node:crypto";
import type { Clock } from "../base/clock.ts";

export interface RepeatedRequestsOptions {
  clock: Pick<Clock, "monotonicMs">;
  /** How long one is remembered at least, if there are not too many. Exporters give up after about a minute. Default 5 min. */
  keepMs?: number;
  /** Remembered at least; up to twice as many are. About 50 B each. Default 65,536. */
  maxKept?: number;
}

/** Of its beginning and its end: enough for a batch to tell its ids and times, and little to pay for a large one. */
const lookedAtBytes = 4_096;

export class RepeatedRequests<Reply> {
  readonly #options: Required<RepeatedRequestsOptions>;
  /** Forgotten as a whole, the older one each time. */
  #newer = new Map<number, Promise<Reply> | Reply>();
  #older = new Map<number, Promise<Reply> | Reply>();
  #turnedAtMs: number;
  /** Requests that were answered and not taken again. */
  repeated = 0;

  constructor({ clock, keepMs = 300_000, maxKept = 65_536 }: RepeatedRequestsOptions) {
    this.#options = { clock, keepMs, maxKept };
    this.#turnedAtMs = clock.monotonicMs();
  }

  /** What `take` made of these bytes, now or when they came before; also while it is still at work. A failure is not remembered. */
  async once(kind: string, body: Uint8Array, take: () => Promise<Reply>): Promise<Reply> {
    this.#turn();
    const key = keyOf(kind, body);
    const known = this.#newer.get(key) ?? this.#older.get(key);
    if (known !== undefined) {
      this.repeated++;
      return known;
    }
    const reply = take();
    this.#newer.set(key, reply);
    try {
      const done = await reply;
      this.#newer.set(key, done);
      return done;
    } catch (error) {
      this.#newer.delete(key);
      this.#older.delete(key);
      throw error;
    }
  }

  #turn(): void {
    const { clock, keepMs, maxKept } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#newer.size < maxKept && nowMs - this.#turnedAtMs < keepMs) return;
    this.#older = this.#newer;
    this.#newer = new Map();
    this.#turnedAtMs = nowMs;
  }
}

/** 53 bits: with 100,000 remembered, one of 10^11 others would be taken for a known one. */
function keyOf(kind: string, body: Uint8Array): number {
  const hash = createHash("sha1").update(`${kind}:${body.length}:`);
  if (body.length <= 2 * lookedAtBytes) hash.update(body);
  else hash.update(body.subarray(0, lookedAtBytes)).update(body.subarray(body.length - lookedAtBytes));
  const digest = hash.digest();
  return digest.readUIntBE(0, 6) * 32 + (digest.readUInt8(6) & 31);
}
