/** Generates spans of a large system quickly: services that call each other, in complete traces, as batches of one agent's segment each. */

import { randomBytes } from "node:crypto";
import type { BatchColumn, SegmentBatch } from "../../src/store/segments/index.ts";

/** Size and time range of the generated spans. */
export interface SpanWorldOptions {
  services: number;
  /** A service's spans come from the agent with its number modulo this. */
  agents: number;
  segmentRows: number;
  /** First span; microseconds since 1970. */
  startUs: number;
  /** Between two traces. */
  traceEveryUs: number;
  /** The same seed gives the same services, routes and durations; ids are random. */
  seed: number;
}

/** One segment of one agent, before it is encoded. */
export interface WorldSegment {
  agent: number;
  batch: SegmentBatch;
}

/** Shared by all services. */
const routes = 5;
/** A root and two calls, each with both of its ends. */
const spansPerTrace = 5;
const attributeEntropy = 41;

/** Columns of one agent's next segment, filled row by row. */
class Buffers {
  rows = 0;
  readonly time: BigInt64Array;
  readonly duration: BigInt64Array;
  readonly service: Uint32Array;
  readonly route: Uint32Array;
  readonly kind: Uint32Array;
  readonly status: Uint32Array;
  readonly code: Int32Array;
  readonly traceId: Buffer;
  readonly spanId: Buffer;
  readonly parentId: Buffer;
  readonly hasParent: Uint8Array;

  constructor(rows: number) {
    this.time = new BigInt64Array(rows);
    this.duration = new BigInt64Array(rows);
    this.service = new Uint32Array(rows);
    this.route = new Uint32Array(rows);
    this.kind = new Uint32Array(rows);
    this.status = new Uint32Array(rows);
    this.code = new Int32Array(rows);
    this.traceId = Buffer.alloc(rows * 16);
    this.spanId = Buffer.alloc(rows * 8);
    this.parentId = Buffer.alloc(rows * 8);
    this.hasParent = new Uint8Array(Math.ceil(rows / 8));
  }
}

interface Packed {
  bytes: Uint8Array;
  offsets: Uint32Array;
}

function packed(values: readonly string[]): Packed {
  const parts = values.map((value) => Buffer.from(value));
  const offsets = new Uint32Array(parts.length + 1);
  for (const [index, part] of parts.entries()) offsets[index + 1] = (offsets[index] ?? 0) + part.length;
  return { bytes: Buffer.concat(parts), offsets };
}

const names = (count: number, nameOf: (index: number) => string): Packed =>
  packed(Array.from({ length: count }, (_, index) => nameOf(index)));

/** Generates traces segment by segment, so that memory stays bounded. */
export class SpanWorld {
  readonly #options: SpanWorldOptions;
  readonly #buffers: Buffers[];
  readonly #services: Packed;
  readonly #resources: Packed;
  readonly #spanNames = names(routes, (index) => `GET /api/v1/things/{id}/${index}`);
  readonly #routes = names(routes, (index) => `/api/v1/things/{id}/${index}`);
  readonly #kinds = packed(["server", "client"]);
  readonly #statuses = packed(["unset", "error"]);
  readonly #methods = packed(["GET"]);
  readonly #attributes: BatchColumn[];
  #state: number;
  #traces = 0;
  /** Ids of a few traces, hex, to look up. */
  readonly someTraces: string[] = [];

  constructor(options: SpanWorldOptions) {
    this.#options = options;
    this.#state = options.seed >>> 0;
    this.#services = names(options.services, (index) => `service-${index}`);
    this.#resources = names(options.services, (index) => `{"service.name":"service-${index}","telemetry.sdk.language":"nodejs"}`);
    this.#buffers = Array.from({ length: options.agents }, () => new Buffers(options.segmentRows));
    // Strings are the most expensive part to generate, so a few prepared columns are reused in turn.
    this.#attributes = Array.from({ length: 3 }, () => attributesOf(options.segmentRows));
  }

  /** Generates traces until a segment is full and returns it. */
  next(): WorldSegment {
    for (;;) {
      const full = this.#buffers.findIndex(({ rows }) => rows > this.#options.segmentRows - spansPerTrace);
      if (full >= 0) return this.#handOver(full);
      this.#addTrace();
    }
  }

  #random(): number {
    this.#state = (Math.imul(this.#state ^ (this.#state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 4_294_967_296;
  }

  /** web → api → store: a root, and two calls with a client and a server span each. A few services have most of the traffic. */
  #addTrace(): void {
    const { services, startUs, traceEveryUs } = this.#options;
    const ids = randomBytes(16 + spansPerTrace * 8);
    const atUs = startUs + this.#traces * traceEveryUs;
    if (this.#traces % 4_096 === 17 && this.someTraces.length < 1_024) this.someTraces.push(ids.toString("hex", 0, 16));
    this.#traces++;
    let service = Math.floor(services * this.#random() ** 3);
    for (let at = 0; at < spansPerTrace; at++) {
      const isCalled = at % 2 === 0;
      if (isCalled && at > 0) service = (service * 7 + 1 + Math.floor(this.#random() * 3)) % services;
      this.#addSpan(service, ids, at, atUs + at * 300, isCalled ? 0 : 1);
    }
  }

  #addSpan(service: number, ids: Buffer, at: number, timeUs: number, kind: number): void {
    const buffers = this.#buffers[service % this.#options.agents] as Buffers;
    const row = buffers.rows++;
    const isError = this.#random() < 0.01;
    buffers.time[row] = BigInt(timeUs);
    const route = Math.floor(routes * this.#random() ** 2);
    // Each route has a typical duration between 0.2 and 50 ms; its spans vary by a factor of about three.
    const usualNs = 200_000 * 2 ** ((((service * 7 + route * 13) % 32) / 32) * 8);
    const spread = this.#random() + this.#random() + this.#random() + this.#random() - 2;
    buffers.duration[row] = BigInt(Math.floor(usualNs * 2 ** (spread * 1.4)));
    buffers.service[row] = service;
    buffers.route[row] = route;
    buffers.kind[row] = kind;
    buffers.status[row] = isError ? 1 : 0;
    buffers.code[row] = isError ? 500 : 200;
    ids.copy(buffers.traceId, row * 16, 0, 16);
    ids.copy(buffers.spanId, row * 8, 16 + at * 8, 24 + at * 8);
    if (at === 0) return;
    ids.copy(buffers.parentId, row * 8, 8 + at * 8, 16 + at * 8);
    buffers.hasParent[row >> 3] = (buffers.hasParent[row >> 3] ?? 0) | (1 << (row & 7));
  }

  #handOver(agent: number): WorldSegment {
    const full = this.#buffers[agent] as Buffers;
    this.#buffers[agent] = new Buffers(this.#options.segmentRows);
    const coded = (codes: Uint32Array, entries: Packed): BatchColumn => ({ kind: "dictionary", codes, ...entries });
    const columns: Record<string, BatchColumn> = {
      time: { kind: "int64", values: full.time },
      service: coded(full.service, this.#services),
      trace_id: { kind: "fixed", widthBytes: 16, bytes: full.traceId },
      span_id: { kind: "fixed", widthBytes: 8, bytes: full.spanId },
      parent_span_id: { kind: "fixed", widthBytes: 8, bytes: full.parentId, present: full.hasParent },
      name: coded(full.route, this.#spanNames),
      kind: coded(full.kind, this.#kinds),
      duration_ns: { kind: "int64", values: full.duration },
      status: coded(full.status, this.#statuses),
      weight: { kind: "double", values: new Float64Array(full.rows).fill(1) },
      http_method: coded(new Uint32Array(full.rows), this.#methods),
      http_route: coded(full.route, this.#routes),
      http_status_code: { kind: "int32", values: full.code },
      attributes: this.#attributes[this.#traces % this.#attributes.length] as BatchColumn,
      resource: coded(full.service, this.#resources),
    };
    return { agent, batch: { rows: full.rows, columns } };
  }
}

function attributesOf(rows: number): BatchColumn {
  const random = randomBytes(rows * attributeEntropy).toString("hex");
  const digits = attributeEntropy * 2;
  const texts = Array.from({ length: rows }, (_, row) => {
    const part = (from: number, length: number): string => random.slice(row * digits + from, row * digits + from + length);
    return `{"user.id":"${part(0, 32)}","session.id":"${part(32, 32)}","net.peer.ip":"10.0.${row % 250}.7","thread.id":${row % 64},"cache.key":"${part(64, 18)}"}`;
  });
  return { kind: "text", ...packed(texts) };
}
