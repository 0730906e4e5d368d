/** A load generator that sends spans and records the outcome of each request, to compare with what was stored. */

import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type TestSpan, traceRequest } from "../../src/otlp/decode/otlp-encoder.fixture.ts";
import type { ColonyDaemon } from "./daemon.ts";
import { waitFor } from "./wait-for.ts";

export interface Sending {
  number: number;
  /** `unknown`: the connection ended before the response. */
  outcome: "acknowledged" | "refused" | "unknown";
  /** HTTP status, if there was a response. */
  status?: number;
  retryAfter?: string | null;
}

export interface OtlpLoadOptions {
  /** host:port of the OTLP/HTTP receiver. */
  address: string;
  spansPerRequest: number;
  /** Concurrent requests. */
  connections: number;
  /** Pause of each connection between two requests. Default: none. */
  pauseMs?: number;
  /** Outcomes so far; new request numbers continue from there. */
  notes: Sending[];
}

/** Sends until stopped. Backs off briefly after a refusal or a broken connection. */
export class OtlpLoad implements AsyncDisposable {
  readonly #options: OtlpLoadOptions;
  readonly #stopped = new AbortController();
  readonly #lanes: Promise<void>[];
  #next: number;

  constructor(options: OtlpLoadOptions) {
    this.#options = options;
    this.#next = Math.max(0, ...options.notes.map(({ number }) => number)) + 1;
    this.#lanes = Array.from({ length: options.connections }, () => this.#lane());
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await Promise.all(this.#lanes);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #lane(): Promise<void> {
    const { notes, pauseMs = 0 } = this.#options;
    while (!this.#stopped.signal.aborted) {
      const sending = await this.#send(this.#next++);
      notes.push(sending);
      await sleep(sending.outcome === "acknowledged" ? pauseMs : 50);
    }
  }

  async #send(number: number): Promise<Sending> {
    const { address, spansPerRequest } = this.#options;
    const body = requestOf(number, spansPerRequest);
    try {
      const headers = { "content-type": "application/x-protobuf" };
      const reply = await fetch(`http://${address}/v1/traces`, { method: "POST", headers, body });
      await reply.arrayBuffer();
      const outcome = reply.status === 200 ? "acknowledged" : "refused";
      return { number, outcome, status: reply.status, retryAfter: reply.headers.get("retry-after") };
    } catch {
      // The agent was killed or has not started yet.
      return { number, outcome: "unknown" };
    }
  }
}

/** Span and trace ids encode the number of their request. */
function requestOf(number: number, spans: number): Buffer {
  const startNs = BigInt(Date.now()) * 1_000_000n;
  const sending = number.toString(16).padStart(8, "0");
  const items = Array.from({ length: spans }, (_, index): TestSpan => {
    const place = (index + 1).toString(16).padStart(8, "0");
    return {
      traceId: `${sending}${"0".repeat(16)}${place}`,
      spanId: `${sending}${place}`,
      name: `op ${index % 7}`,
      startNs,
      endNs: startNs + 1_000_000n,
      attributes: { "http.route": `/things/${index % 20}`, "request.id": `${sending}-${place}-${"x".repeat(200)}` },
    };
  });
  return traceRequest([{ resource: { "service.name": `load-${number % 5}` }, items }]);
}

/**
 * Waits until the colony has all acknowledged spans, then compares per request: acknowledged requests are stored exactly once, refused ones not at all,
 * and those without a response completely or not at all.
 */
export async function expectSendings(colony: ColonyDaemon, notes: readonly Sending[], spansPerRequest: number): Promise<void> {
  const acknowledged = notes.filter(({ outcome }) => outcome === "acknowledged").length;
  const bySending = "SELECT substr(trace_id, 1, 8) AS sending, count(*) AS spans, count(DISTINCT span_id) AS ids FROM span GROUP BY 1";
  const found = await waitFor(
    "all acknowledged spans at the colony",
    async () => {
      const rows = await colony.sql(bySending);
      const stored = new Map(rows.map((row) => [Number.parseInt(String(row["sending"]), 16), [Number(row["spans"]), Number(row["ids"])]]));
      return notes.every(({ outcome, number }) => outcome !== "acknowledged" || stored.get(number)?.[0] === spansPerRequest) && stored;
    },
    { timeoutMs: 120_000, intervalMs: 500, details: () => `${acknowledged} requests were acknowledged\n${colony.lastLines()}` },
  );
  const all = [spansPerRequest, spansPerRequest];
  const wrong = notes.filter(({ number, outcome }) => {
    const stored = JSON.stringify(found.get(number));
    const isAll = stored === JSON.stringify(all);
    return outcome === "acknowledged" ? !isAll : outcome === "refused" ? stored !== undefined : stored !== undefined && !isAll;
  });
  expect(wrong.map((sending) => ({ ...sending, stored: found.get(sending.number) }))).toEqual([]);
  const known = new Set(notes.map(({ number }) => number));
  expect([...found.keys()].filter((number) => !known.has(number))).toEqual([]);
}
