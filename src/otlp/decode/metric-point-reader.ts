/** Data points of each kind. */

import { ByteWriter } from "../columns/byte-writer.ts";
import { MalformedError, type ProtobufReader, wire } from "../columns/protobuf-reader.ts";
import { microseconds } from "../columns/split-time.ts";
import type { AttributeReader } from "./attribute-reader.ts";
import type { Exemplar, ExponentialBuckets, MetricKind, MetricPoint } from "./metric-point.ts";

type Point = Omit<
  MetricPoint,
  | "service"
  | "serviceVersion"
  | "serviceInstance"
  | "environment"
  | "hostName"
  | "resource"
  | "scopeName"
  | "scopeVersion"
  | "name"
  | "description"
  | "unit"
  | "kind"
  | "temporality"
  | "isMonotonic"
>;

/** Field numbers; `start` is 2 and `time` 3 in all of them. */
const numberField = { double: 4, exemplar: 5, int: 6, attribute: 7, flags: 8 } as const;
const histogramField = { count: 4, sum: 5, counts: 6, bounds: 7, exemplar: 8, attribute: 9, flags: 10, min: 11, max: 12 } as const;
const exponentialField = {
  attribute: 1,
  count: 4,
  sum: 5,
  scale: 6,
  zeroCount: 7,
  positive: 8,
  negative: 9,
  flags: 10,
  exemplar: 11,
  min: 12,
  max: 13,
  zeroThreshold: 14,
} as const;
const summaryField = { count: 4, sum: 5, quantile: 6, attribute: 7, flags: 8 } as const;
const exemplarField = { time: 2, double: 3, spanId: 4, traceId: 5, int: 6, attribute: 7 } as const;
/** `start_time_unix_nano` of every kind of point. */
const startField = 2;
/** `time_unix_nano` of every kind of point. */
const timeField = 3;

/** Buckets or quantiles of one point. */
const maxBuckets = 4_096;
/** Exemplars of one point; more are counted as cut. */
const maxExemplars = 16;
/** DataPointFlags, bit 0: the point has no value. Marks a stale series. */
const noRecordedValue = 1;

/** Field numbers differ by kind, so each kind has its own function. Keeps state only within one point. */
export class PointReader {
  readonly #reader: ProtobufReader;
  readonly #attributes: AttributeReader;
  readonly #receivedAtUs: number;
  readonly #json = new ByteWriter(1_024);
  /** JSON of each attribute of the current point, with its key. */
  #entries: { key: string; json: string }[] = [];

  constructor(reader: ProtobufReader, attributes: AttributeReader, receivedAtUs: number) {
    this.#reader = reader;
    this.#attributes = attributes;
    this.#receivedAtUs = receivedAtUs;
  }

  /** A point from the reader's position to `end`. */
  read(end: number, kind: MetricKind): Point {
    const point: Point = { attributes: "{}", startTimeUs: 0, timeUs: 0, hasNoValue: false, exemplars: [] };
    this.#entries = [];
    const reader = this.#reader;
    while (reader.at < end) {
      const tag = reader.tag();
      const field = tag >>> 3;
      if (field === timeField && (tag & 7) === wire.fixed64) point.timeUs = this.#time(end);
      else if (field === startField && (tag & 7) === wire.fixed64) point.startTimeUs = this.#time(end);
      else if (!this.#field(point, kind, tag, field, end)) reader.skip(tag, end);
    }
    if (reader.at > end) throw new MalformedError("a field is longer than the message around it");
    point.attributes = this.#canonical();
    if (point.timeUs === 0) point.timeUs = this.#receivedAtUs;
    check(point, kind);
    return point;
  }

  #field(point: Point, kind: MetricKind, tag: number, field: number, end: number): boolean {
    switch (kind) {
      case "gauge":
      case "sum":
        return this.#numberField(point, tag, field, end);
      case "histogram":
        return this.#histogramField(point, tag, field, end);
      case "exponential_histogram":
        return this.#exponentialField(point, tag, field, end);
      case "summary":
        return this.#summaryField(point, tag, field, end);
    }
  }

  #numberField(point: Point, tag: number, field: number, end: number): boolean {
    const type = tag & 7;
    if (field === numberField.double && type === wire.fixed64) point.value = this.#double(end);
    else if (field === numberField.int && type === wire.fixed64) point.value = this.#int(end);
    else if (field === numberField.exemplar && type === wire.bytes) this.#exemplar(point, end);
    else if (field === numberField.attribute && type === wire.bytes) this.#attribute(end);
    else if (field === numberField.flags && type === wire.varint) this.#flags(point);
    else return false;
    return true;
  }

  #histogramField(point: Point, tag: number, field: number, end: number): boolean {
    const type = tag & 7;
    if (field === histogramField.count && type === wire.fixed64) point.count = this.#count(end);
    else if (field === histogramField.sum && type === wire.fixed64) point.sum = this.#double(end);
    else if (field === histogramField.counts) this.#numbers((point.counts ??= []), tag, end, "count");
    else if (field === histogramField.bounds) this.#numbers((point.bounds ??= []), tag, end, "double");
    else if (field === histogramField.exemplar && type === wire.bytes) this.#exemplar(point, end);
    else if (field === histogramField.attribute && type === wire.bytes) this.#attribute(end);
    else if (field === histogramField.flags && type === wire.varint) this.#flags(point);
    else if (field === histogramField.min && type === wire.fixed64) point.min = this.#double(end);
    else if (field === histogramField.max && type === wire.fixed64) point.max = this.#double(end);
    else return false;
    return true;
  }

  #exponentialField(point: Point, tag: number, field: number, end: number): boolean {
    const type = tag & 7;
    if (field === exponentialField.attribute && type === wire.bytes) this.#attribute(end);
    else if (field === exponentialField.count && type === wire.fixed64) point.count = this.#count(end);
    else if (field === exponentialField.sum && type === wire.fixed64) point.sum = this.#double(end);
    else if (field === exponentialField.scale && type === wire.varint) point.scale = this.#reader.sint32();
    else if (field === exponentialField.zeroCount && type === wire.fixed64) point.zeroCount = this.#count(end);
    else if (field === exponentialField.positive && type === wire.bytes) point.positive = this.#buckets(end);
    else if (field === exponentialField.negative && type === wire.bytes) point.negative = this.#buckets(end);
    else if (field === exponentialField.flags && type === wire.varint) this.#flags(point);
    else if (field === exponentialField.exemplar && type === wire.bytes) this.#exemplar(point, end);
    else if (field === exponentialField.min && type === wire.fixed64) point.min = this.#double(end);
    else if (field === exponentialField.max && type === wire.fixed64) point.max = this.#double(end);
    else if (field === exponentialField.zeroThreshold && type === wire.fixed64) point.zeroThreshold = this.#double(end);
    else return false;
    return true;
  }

  #summaryField(point: Point, tag: number, field: number, end: number): boolean {
    const type = tag & 7;
    if (field === summaryField.count && type === wire.fixed64) point.count = this.#count(end);
    else if (field === summaryField.sum && type === wire.fixed64) point.sum = this.#double(end);
    else if (field === summaryField.quantile && type === wire.bytes) this.#quantile((point.quantiles ??= []), end);
    else if (field === summaryField.attribute && type === wire.bytes) this.#attribute(end);
    else if (field === summaryField.flags && type === wire.varint) this.#flags(point);
    else return false;
    return true;
  }

  #time(limit: number): number {
    const { view } = this.#reader;
    const at = this.#reader.fixed64(limit);
    return microseconds(view.getUint32(at, true), view.getUint32(at + 4, true));
  }

  #double(limit: number): number {
    return this.#reader.view.getFloat64(this.#reader.fixed64(limit), true);
  }

  #int(limit: number): number {
    return Number(this.#reader.view.getBigInt64(this.#reader.fixed64(limit), true));
  }

  #count(limit: number): number {
    return Number(this.#reader.view.getBigUint64(this.#reader.fixed64(limit), true));
  }

  #flags(point: Point): void {
    point.hasNoValue = (this.#reader.uint() & noRecordedValue) !== 0;
  }

  /** A repeated number, packed or not. */
  #numbers(into: number[], tag: number, limit: number, type: "count" | "double" | "varint"): void {
    const reader = this.#reader;
    const isPacked = (tag & 7) === wire.bytes;
    const expected = type === "varint" ? wire.varint : wire.fixed64;
    if (!isPacked && (tag & 7) !== expected) throw new MalformedError(`a field has wire type ${tag & 7}`);
    const end = isPacked ? reader.end(limit) : limit;
    do {
      if (isPacked && reader.at >= end) break;
      if (into.length >= maxBuckets) throw new MalformedError("a histogram has too many buckets");
      into.push(type === "varint" ? reader.uint() : type === "count" ? this.#count(end) : this.#double(end));
    } while (isPacked);
    if (reader.at > end) throw new MalformedError("a field is longer than the message around it");
  }

  #buckets(limit: number): ExponentialBuckets {
    const reader = this.#reader;
    const end = reader.end(limit);
    const buckets: ExponentialBuckets = { offset: 0, counts: [] };
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === 8) buckets.offset = reader.sint32();
      else if (tag >>> 3 === 2) this.#numbers(buckets.counts, tag, end, "varint");
      else reader.skip(tag, end);
    }
    return buckets;
  }

  #quantile(into: { quantile: number; value: number }[], limit: number): void {
    const reader = this.#reader;
    const end = reader.end(limit);
    const made = { quantile: 0, value: 0 };
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === 9) made.quantile = this.#double(end);
      else if (tag === 17) made.value = this.#double(end);
      else reader.skip(tag, end);
    }
    if (into.length >= maxBuckets) throw new MalformedError("a summary has too many quantiles");
    into.push(made);
  }

  #exemplar(point: Point, limit: number): void {
    const reader = this.#reader;
    const end = reader.end(limit);
    const outer = this.#entries;
    this.#entries = [];
    const exemplar: Exemplar = { timeUs: 0, value: 0, traceId: "", spanId: "", attributes: "{}" };
    while (reader.at < end) {
      const tag = reader.tag();
      const field = tag >>> 3;
      const type = tag & 7;
      if (field === exemplarField.time && type === wire.fixed64) exemplar.timeUs = this.#time(end);
      else if (field === exemplarField.double && type === wire.fixed64) exemplar.value = this.#double(end);
      else if (field === exemplarField.int && type === wire.fixed64) exemplar.value = this.#int(end);
      else if (field === exemplarField.spanId && type === wire.bytes) exemplar.spanId = this.#hex(end, 8);
      else if (field === exemplarField.traceId && type === wire.bytes) exemplar.traceId = this.#hex(end, 16);
      else if (field === exemplarField.attribute && type === wire.bytes) this.#attribute(end);
      else reader.skip(tag, end);
    }
    exemplar.attributes = this.#canonical();
    this.#entries = outer;
    if (point.exemplars.length < maxExemplars) point.exemplars.push(exemplar);
    else this.#attributes.cut++;
  }

  #hex(limit: number, widthBytes: number): string {
    const reader = this.#reader;
    const end = reader.end(limit);
    const text = Buffer.from(reader.bytes.subarray(reader.at, end)).toString("hex");
    const isId = end - reader.at === widthBytes;
    reader.at = end;
    return isId ? text : "";
  }

  #attribute(limit: number): void {
    const attributes = this.#attributes;
    const end = this.#reader.end(limit);
    attributes.open(end);
    const { bytes } = this.#reader;
    const key = Buffer.from(bytes.subarray(attributes.keyStart, attributes.keyEnd)).toString("utf8");
    this.#json.size = 0;
    attributes.writeTo(this.#json, 0);
    if (this.#entries.length >= attributes.maxCount) attributes.cut++;
    else if (this.#json.size > 0) this.#entries.push({ key, json: this.#json.bytes.toString("utf8", 0, this.#json.size) });
    this.#reader.at = end;
  }

  #canonical(): string {
    const sorted = this.#entries.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
    return `{${sorted.map(({ json }) => json).join(",")}}`;
  }
}

/** Throws MalformedError for a point that contradicts itself. Sets defaults that readers rely on. */
function check(point: Point, kind: MetricKind): void {
  const fail = (why: string): never => {
    throw new MalformedError(why);
  };
  if (point.hasNoValue) return;
  if (kind === "gauge" || kind === "sum") {
    if (point.value === undefined) fail("a point has no value");
    return;
  }
  point.count ??= 0;
  if (kind !== "histogram") return;
  const { bounds = [], counts = [] } = point;
  // Without bounds a histogram may have one bucket or none, which is equivalent.
  if (counts.length !== bounds.length + 1 && !(bounds.length === 0 && counts.length === 0))
    fail("a histogram's counts do not match its bounds");
  if (bounds.some((bound, index) => index > 0 && !(bound > (bounds[index - 1] ?? 0)))) fail("a histogram's bounds are not ascending");
  point.bounds = bounds;
  point.counts = counts.length === 0 ? [point.count] : counts;
}
