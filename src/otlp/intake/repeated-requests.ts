/**
 * Detects retransmitted requests. A sender without a timely reply sends the same bytes again, which must not double its counts. Ids and
 * times make any two requests different, so equal bytes are the same request.
 */

import { hash } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import type { OtlpSignal } from "../decode/inspect-request.ts";
import type { RequestJournal } from "./request-journal.ts";

export interface RepeatedRequestsOptions {
  clock: Pick<Clock, "monotonicMs">;
  /** Minimum time in the cache, unless it is full. Exporters give up after about a minute. Default 5 min. */
  keepMs?: number;
  /** Minimum capacity; up to twice as many are kept. About 50 B each. Default 65,536. */
  maxKept?: number;
  /** Requests of a former process; records those of this one. Absent: a restart forgets them. */
  journal?: Pick<RequestJournal, "recent" | "add" | "rotate"> | undefined;
}

/** Bytes hashed at each end of a large body: enough to cover ids and times of a batch. */
const sampledBytes = 4_096;

/** Changed in place when the reply arrives: finding a key among so many costs more than everything else here. */
interface Known<Reply> {
  reply: Promise<Reply> | Reply;
}

/** Keys of requests with their reply. A copy that arrives while the first is still in progress waits for the same reply. */
export class RepeatedRequests<Reply> {
  readonly #options: Required<Omit<RepeatedRequestsOptions, "journal">>;
  readonly #journal: RepeatedRequestsOptions["journal"];
  /** Two generations; the older one is dropped as a whole. */
  #newer = new Map<number, Known<Reply>>();
  #older = new Map<number, Known<Reply>>();
  #rotatedAtMs: number;
  /** Retransmitted requests that were acknowledged and not processed again. */
  repeated = 0;

  /** `former`: the reply to requests that a former process accepted. */
  constructor({ clock, keepMs = 300_000, maxKept = 65_536, journal }: RepeatedRequestsOptions, former?: Reply) {
    this.#options = { clock, keepMs, maxKept };
    this.#journal = journal;
    if (former !== undefined) for (const key of journal?.recent(keepMs) ?? []) this.#older.set(key, { reply: former });
    this.#rotatedAtMs = clock.monotonicMs();
  }

  /** The result of `take` for these bytes, from this or an earlier call, which may still be pending. Failures are not cached. */
  async once(signal: OtlpSignal, body: Uint8Array, take: () => Promise<Reply>): Promise<Reply> {
    this.#rotate();
    const key = requestKey(signal, body);
    const known = this.#newer.get(key) ?? this.#older.get(key);
    if (known !== undefined) {
      this.repeated++;
      return known.reply;
    }
    const pending: Known<Reply> = { reply: take() };
    this.#newer.set(key, pending);
    try {
      const reply = await pending.reply;
      await this.#journal?.add(key);
      return (pending.reply = reply);
    } catch (error) {
      this.#newer.delete(key);
      this.#older.delete(key);
      throw error;
    }
  }

  #rotate(): void {
    const { clock, keepMs, maxKept } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#newer.size < maxKept && nowMs - this.#rotatedAtMs < keepMs) return;
    this.#older = this.#newer;
    this.#newer = new Map();
    this.#rotatedAtMs = nowMs;
    this.#journal?.rotate();
  }
}

const signalCodes: Readonly<Record<OtlpSignal, number>> = { traces: 0, logs: 1, metrics: 2 };

/** 51 bits of a hash and two of the signal: with 100,000 cached keys, one in 10^10 other requests collides. */
export function requestKey(signal: OtlpSignal, body: Uint8Array): number {
  const digest = hash("sha1", body.length <= 2 * sampledBytes ? body : sampleOf(body), "hex");
  return Math.floor(Number.parseInt(digest.slice(0, 13), 16) / 2) * 4 + signalCodes[signal];
}

function sampleOf(body: Uint8Array): Uint8Array {
  const length = Buffer.from(`${body.length}:`);
  return Buffer.concat([length, body.subarray(0, sampledBytes), body.subarray(body.length - sampledBytes)]);
}
