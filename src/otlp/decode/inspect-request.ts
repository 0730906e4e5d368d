/**
 * Inspects a request before it is acknowledged: is it valid, how many rows does it have, and how many of them will be rejected. Does not decode
 * values, so that it is cheap enough for the receiver's thread.
 */

import { ByteWriter } from "../columns/byte-writer.ts";
import { MalformedError, ProtobufReader } from "../columns/protobuf-reader.ts";
import { AttributeReader } from "./attribute-reader.ts";

export type OtlpSignal = "traces" | "logs" | "metrics";

/** What a valid request contains. For malformed protobuf, `inspectRequest` throws instead. */
export interface Inspection {
  /** Spans, log records or data points. */
  rows: number;
  /** Items that cannot be stored. */
  rejected: number;
  /** Why the first of them is rejected; empty if none is. */
  reason: string;
  /** No item has a time, so that two different requests may have equal bytes. Logs only: spans have ids, points have times. */
  isTimeless: boolean;
}

/** `resource_spans`, `resource_logs` and `resource_metrics` are all field 1 of their request. */
const groupsTag = 10;
/** Resource of a resource group, InstrumentationScope of a scope group: field 1 of both. */
const ownerTag = 10;
/** Scope groups of a resource group, items of a scope group: field 2 of both. */
const itemsTag = 18;
/** Resource.attributes: field 1. */
const resourceAttributeTag = 10;
/** InstrumentationScope.attributes: field 3, after name and version. */
const scopeAttributeTag = 26;
const timeTag = { time: 9, observed: 89 } as const;
const idTag = { trace: 10, span: 18 } as const;
/** Gauge, sum, histogram, exponential histogram, summary. */
const metricDataTags = new Set([42, 58, 74, 82, 90]);
/** `data_points` is field 1 of every kind of metric data. */
const pointTag = 10;
const traceIdBytes = 16;
const spanIdBytes = 8;

/** Throws MalformedError when the body is not a request of this kind. */
export function inspectRequest(signal: OtlpSignal, body: Uint8Array): Inspection {
  shared ??= new Inspector();
  return shared.inspect(signal, body);
}

/** Reused for all requests: setting it up would cost more than inspecting a small request. */
let shared: Inspector | undefined;
const noBytes = new Uint8Array(0);

class Inspector {
  readonly #reader = new ProtobufReader();
  readonly #attributes = new AttributeReader(this.#reader);
  /** Written while parsing, never read. */
  readonly #json = new ByteWriter(256);
  #rows = 0;
  #rejected = 0;
  #reason = "";
  #timed = 0;

  inspect(signal: OtlpSignal, body: Uint8Array): Inspection {
    this.#rows = 0;
    this.#rejected = 0;
    this.#reason = "";
    this.#timed = 0;
    this.#reader.open(body);
    try {
      this.#walk(signal, body);
      return { rows: this.#rows, rejected: this.#rejected, reason: this.#reason, isTimeless: signal === "logs" && this.#timed === 0 };
    } finally {
      // Do not keep the body until the next request.
      this.#reader.open(noBytes);
    }
  }

  #walk(signal: OtlpSignal, body: Uint8Array): void {
    this.#each(body.length, groupsTag, (groupEnd) =>
      this.#group(groupEnd, resourceAttributeTag, (scopeEnd) => this.#group(scopeEnd, scopeAttributeTag, (end) => this.#item(signal, end))),
    );
    if (this.#reader.at !== body.length) throw new MalformedError("the message ends inside a field");
  }

  /** Items and their owner. The owner's attributes are checked too: a malformed one would lose all items. */
  #group(end: number, attributeTag: number, visit: (end: number) => void): void {
    const reader = this.#reader;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag !== itemsTag && tag !== ownerTag) {
        reader.skip(tag, end);
        continue;
      }
      const partEnd = reader.end(end);
      if (tag === itemsTag) visit(partEnd);
      else this.#each(partEnd, attributeTag, (attributeEnd) => this.#attribute(attributeEnd));
      reader.at = partEnd;
    }
    if (reader.at > end) throw new MalformedError("a field is longer than the message around it");
  }

  #attribute(end: number): void {
    this.#attributes.open(end);
    this.#json.size = 0;
    this.#attributes.writeValue(this.#json);
  }

  #each(end: number, field: number, visit: (end: number) => void): void {
    const reader = this.#reader;
    reader.each(field, end, visit);
    if (reader.at > end) throw new MalformedError("a field is longer than the message around it");
  }

  #item(signal: OtlpSignal, end: number): void {
    if (signal === "traces") this.#span(end);
    else if (signal === "metrics") this.#metric(end);
    else this.#log(end);
  }

  #log(end: number): void {
    this.#rows++;
    const reader = this.#reader;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === timeTag.time || tag === timeTag.observed) this.#timed++;
      reader.skip(tag, end);
    }
  }

  #span(end: number): void {
    this.#rows++;
    const reader = this.#reader;
    let ids = 0;
    while (reader.at < end) {
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
    if (reader.at > end) throw new MalformedError("a field is longer than the message around it");
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
    this.#rows += points;
    if (!isNamed && points > 0) this.#reject("a metric has no name", points);
  }

  #reject(reason: string, rows = 1): void {
    this.#rejected += rows;
    this.#reason ||= reason;
  }
}
