/**
 * A look at a request before it is acknowledged: is it one, how many rows does it hold, and which of them will be refused. Reads no values, so
 * that it may run on the thread of the receiver.
 */

import { MalformedError, ProtobufReader } from "./protobuf-reader.ts";

export type OtlpSignal = "traces" | "logs" | "metrics";

export interface Inspection {
  /** Spans, log records or data points. */
  rows: number;
  /** Of them, those that cannot be kept. */
  rejected: number;
  /** Why the first of them cannot; empty when all can. */
  reason: string;
}

const groupsTag = 10;
const itemsTag = 18;
const idTag = { trace: 10, span: 18 } as const;
/** Gauge, sum, histogram, exponential histogram, summary. */
const metricDataTags = new Set([42, 58, 74, 82, 90]);
const pointTag = 10;
const traceIdBytes = 16;
const spanIdBytes = 8;

/** Throws MalformedError when the body is no request of this kind. */
export function inspectRequest(signal: OtlpSignal, body: Uint8Array): Inspection {
  const inspector = new Inspector();
  inspector.inspect(signal, body);
  return { rows: inspector.rows, rejected: inspector.rejected, reason: inspector.reason };
}

class Inspector {
  readonly #reader = new ProtobufReader();
  rows = 0;
  rejected = 0;
  reason = "";

  inspect(signal: OtlpSignal, body: Uint8Array): void {
    const reader = this.#reader;
    reader.open(body);
    this.#each(body.length, groupsTag, (groupEnd) =>
      this.#each(groupEnd, itemsTag, (scopeEnd) => this.#each(scopeEnd, itemsTag, (end) => this.#item(signal, end))),
    );
    if (reader.at !== body.length) throw new MalformedError("the message ends inside a field");
  }

  #each(end: number, field: number, visit: (end: number) => void): void {
    const reader = this.#reader;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag !== field) {
        reader.skip(tag, end);
        continue;
      }
      const itemEnd = reader.end(end);
      visit(itemEnd);
      reader.at = itemEnd;
    }
    if (reader.at > end) throw new MalformedError("a field is longer than the message around it");
  }

  #item(signal: OtlpSignal, end: number): void {
    if (signal === "traces") this.#span(end);
    else if (signal === "metrics") this.#metric(end);
    else this.rows++;
  }

  #span(end: number): void {
    this.rows++;
    const reader = this.#reader;
    let ids = 0;
    // Ids come first, as a rule: the rest of the span is not looked at.
    while (reader.at < end && ids !== 3) {
      const tag = reader.tag();
      if (tag === idTag.trace || tag === idTag.span) {
        const width = tag === idTag.trace ? traceIdBytes : spanIdBytes;
        const idEnd = reader.end(end);
        if (idEnd - reader.at === width && this.#isSet(idEnd)) ids |= tag === idTag.trace ? 1 : 2;
        reader.at = idEnd;
      } else {
        reader.skip(tag, end);
      }
    }
    if (ids === 3) return;
    this.#reject(ids & 1 ? "a span has no valid span id" : "a span has no valid trace id");
  }

  #isSet(end: number): boolean {
    const { bytes, at } = this.#reader;
    for (let index = at; index < end; index++) if (bytes[index] !== 0) return true;
    return false;
  }

  #metric(end: number): void {
    const reader = this.#reader;
    let points = 0;
    let isNamed = false;
    while (reader.at < end) {
      const tag = reader.tag();
      if (metricDataTags.has(tag)) {
        points = 0;
        const dataEnd = reader.end(end);
        this.#each(dataEnd, pointTag, () => points++);
      } else if (tag === 10) {
        const nameEnd = reader.end(end);
        isNamed = nameEnd > reader.at;
        reader.at = nameEnd;
      } else {
        reader.skip(tag, end);
      }
    }
    this.rows += points;
    if (!isNamed && points > 0) this.#reject("a metric has no name", points);
  }

  #reject(reason: string, rows = 1): void {
    this.rejected += rows;
    this.reason ||= reason;
  }
}
