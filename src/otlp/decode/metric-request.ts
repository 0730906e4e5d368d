/** Decodes OTLP metric requests (protobuf) into points. Points are objects, because they are few compared to spans and logs, and go to a table. */

import { ByteDictionary } from "../columns/byte-dictionary.ts";
import { MalformedError, ProtobufReader } from "../columns/protobuf-reader.ts";
import { type AttributeLimits, AttributeReader, defaultAttributeLimits } from "./attribute-reader.ts";
import type { MetricKind, MetricPoint, Temporality } from "./metric-point.ts";
import { PointReader } from "./metric-point-reader.ts";
import { ResourceReader } from "./resource-reader.ts";
import { type ItemOwner, walkGroups } from "./walk-groups.ts";

const metricTag = {
  name: 10,
  description: 18,
  unit: 26,
  gauge: 42,
  sum: 58,
  histogram: 74,
  exponentialHistogram: 82,
  summary: 90,
} as const;
const dataTag = { point: 10, temporality: 16, isMonotonic: 24 } as const;

const kinds = new Map<number, MetricKind>([
  [metricTag.gauge, "gauge"],
  [metricTag.sum, "sum"],
  [metricTag.histogram, "histogram"],
  [metricTag.exponentialHistogram, "exponential_histogram"],
  [metricTag.summary, "summary"],
]);
const temporalities: readonly Temporality[] = ["unspecified", "delta", "cumulative"];

/** The points of one request, in the order in which it has them. */
export interface DecodedMetrics {
  points: MetricPoint[];
  /** Points, or whole metrics, that could not be read. */
  malformed: number;
  /** Values truncated or dropped because of a limit. */
  cut: number;
}

type PointOwner = Pick<
  MetricPoint,
  "service" | "serviceVersion" | "serviceInstance" | "environment" | "hostName" | "resource" | "scopeName" | "scopeVersion"
>;

/** Never throws for malformed input: it counts what it cannot read. */
export function decodeMetricRequest(
  body: Uint8Array,
  receivedAtUs: number,
  limits: AttributeLimits = defaultAttributeLimits,
): DecodedMetrics {
  return new MetricDecoder(receivedAtUs, limits).decode(body);
}

/** For one request. A malformed point is dropped alone; a malformed metric with all its points. */
class MetricDecoder {
  readonly #reader = new ProtobufReader();
  readonly #dictionary = new ByteDictionary(8_192);
  readonly #attributes: AttributeReader;
  readonly #owners: ResourceReader;
  readonly #pointReader: PointReader;
  readonly #points: MetricPoint[] = [];
  readonly #ownersSeen = new Map<ItemOwner, PointOwner>();
  #malformed = 0;

  constructor(receivedAtUs: number, limits: AttributeLimits) {
    this.#attributes = new AttributeReader(this.#reader, limits);
    this.#owners = new ResourceReader(this.#reader, this.#attributes, this.#dictionary);
    this.#pointReader = new PointReader(this.#reader, this.#attributes, receivedAtUs);
  }

  decode(body: Uint8Array): DecodedMetrics {
    const unread = walkGroups(this.#reader, this.#owners, body, (end, owner) => this.#tryMetric(end, owner));
    return { points: this.#points, malformed: this.#malformed + unread, cut: this.#attributes.cut };
  }

  #tryMetric(end: number, owner: ItemOwner): void {
    try {
      this.#metric(end, this.#ownerOf(owner));
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error;
      this.#malformed++;
    }
  }

  #metric(end: number, owner: PointOwner): void {
    const reader = this.#reader;
    const metric = { name: "", description: "", unit: "" };
    let kind: MetricKind | undefined;
    let dataStart = 0;
    let dataEnd = 0;
    while (reader.at < end) {
      const tag = reader.tag();
      const found = kinds.get(tag);
      if (found) {
        kind = found;
        dataEnd = reader.end(end);
        dataStart = reader.at;
        reader.at = dataEnd;
      } else if (tag === metricTag.name) metric.name = this.#text(end);
      else if (tag === metricTag.description) metric.description = this.#text(end);
      else if (tag === metricTag.unit) metric.unit = this.#text(end);
      else reader.skip(tag, end);
    }
    // A metric without data has nothing to keep.
    if (kind === undefined) return;
    if (metric.name === "") throw new MalformedError("a metric has no name");
    reader.at = dataStart;
    const meaning = this.#meaning(dataEnd);
    reader.at = dataStart;
    while (reader.at < dataEnd) {
      const tag = reader.tag();
      if (tag === dataTag.point) this.#tryPoint(reader.end(dataEnd), kind, { ...owner, ...metric, kind, ...meaning });
      else reader.skip(tag, dataEnd);
    }
  }

  #tryPoint(end: number, kind: MetricKind, common: Omit<MetricPoint, keyof ReturnType<PointReader["read"]>>): void {
    try {
      this.#points.push({ ...common, ...this.#pointReader.read(end, kind) });
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error;
      this.#malformed++;
    }
    this.#reader.at = end;
  }

  #meaning(end: number): { temporality: Temporality; isMonotonic: boolean } {
    const reader = this.#reader;
    let temporality: Temporality = "unspecified";
    let isMonotonic = false;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === dataTag.temporality) temporality = temporalities[reader.uint()] ?? "unspecified";
      else if (tag === dataTag.isMonotonic) isMonotonic = reader.uint() !== 0;
      else reader.skip(tag, end);
    }
    return { temporality, isMonotonic };
  }

  #text(limit: number): string {
    return this.#dictionary.textOf(this.#owners.text(limit));
  }

  #ownerOf(owner: ItemOwner): PointOwner {
    const known = this.#ownersSeen.get(owner);
    if (known) return known;
    const text = (code: number): string => this.#dictionary.textOf(code);
    const { resource, scope } = owner;
    const made: PointOwner = {
      service: text(resource.service),
      serviceVersion: text(resource.serviceVersion),
      serviceInstance: text(resource.serviceInstance),
      environment: text(resource.environment),
      hostName: text(resource.hostName),
      resource: text(resource.json),
      scopeName: text(scope.name),
      scopeVersion: text(scope.version),
    };
    this.#ownersSeen.set(owner, made);
    return made;
  }
}
