/**
 * OTLP trace requests as many instrumented services would send them, encoded once. Before each send only ids and times are patched, so that the
 * sender costs next to nothing and every span is unique.
 */

/** Offsets of one span's ids and times in the body. */
interface Places {
  traceId: number;
  spanId: number;
  /** -1 for the first span of a trace. */
  parentSpanId: number;
  start: number;
  end: number;
  /** Time before the request is sent. */
  startOffsetNs: number;
  durationNs: number;
}

export interface SpanRequestShape {
  /** Spans in a request, both inclusive. */
  minSpans: number;
  maxSpans: number;
  seed: number;
}

const services = 1_000;
const routesPerService = 20;
/** Spans in a row that share a trace id. */
const spansPerTrace = 5;
const agents = [
  "okhttp/4.12.0",
  "python-requests/2.32.3",
  "Go-http-client/1.1",
  "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
];

/** One request that is sent repeatedly with new ids. */
export class SpanRequest {
  readonly spans: number;
  readonly body: Buffer;
  readonly #places: readonly Places[];

  constructor(body: Buffer, places: readonly Places[]) {
    this.body = body;
    this.spans = places.length;
    this.#places = places;
  }

  /** Writes the number into the first four bytes of every id, which makes them unique. The body must not be in use. */
  stamp(sending: number, nowMs: number): void {
    const { body } = this;
    for (const { traceId, spanId, parentSpanId, start, end, startOffsetNs, durationNs } of this.#places) {
      body.writeUInt32BE(sending, traceId);
      body.writeUInt32BE(sending, spanId);
      if (parentSpanId >= 0) body.writeUInt32BE(sending, parentSpanId);
      putNanoseconds(body, start, nowMs, startOffsetNs);
      putNanoseconds(body, end, nowMs, startOffsetNs - durationNs);
    }
  }
}

/** `beforeNs` before a time in milliseconds. Doubles do not hold nanoseconds since 1970, so both halves are made from microseconds. */
function putNanoseconds(body: Buffer, at: number, nowMs: number, beforeNs: number): void {
  const us = Math.floor(nowMs * 1_000 - beforeNs / 1_000);
  const low = (us % 2 ** 32) * 1_000 + (beforeNs % 1_000);
  body.writeUInt32LE(low % 2 ** 32, at);
  body.writeUInt32LE(Math.floor(us / 2 ** 32) * 1_000 + Math.floor(low / 2 ** 32), at + 4);
}

export function makeSpanRequests(count: number, { minSpans, maxSpans, seed }: SpanRequestShape): SpanRequest[] {
  const random = generator(seed);
  return Array.from({ length: count }, () => makeRequest(minSpans + Math.floor(random() * (maxSpans - minSpans + 1)), random));
}

function makeRequest(spans: number, random: () => number): SpanRequest {
  const service = Math.floor(services * random() ** 3);
  const resource = new Message()
    .attribute("service.name", `service-${service}`)
    .attribute("service.version", `1.${service % 7}.0`)
    .attribute("service.instance.id", `service-${service}-7d9f8b6c5-${(service * 7919) % 997}`)
    .attribute("deployment.environment.name", "production")
    .attribute("host.name", `node-${service % 40}`)
    .attribute("telemetry.sdk.language", ["nodejs", "java", "go", "python"][service % 4] as string)
    .attribute("telemetry.sdk.name", "opentelemetry");
  const scope = new Message().text(1, "@opentelemetry/instrumentation-http").text(2, "0.57.1");
  const scoped = new Message().message(1, scope);
  const trace = { id: Buffer.alloc(16), parent: Buffer.alloc(8) as Buffer };
  for (let index = 0; index < spans; index++) {
    const isFirst = index % spansPerTrace === 0;
    if (isFirst) fill(trace.id, random);
    const spanId = fill(Buffer.alloc(8), random);
    scoped.message(2, makeSpan({ service, traceId: trace.id, spanId, parentSpanId: isFirst ? undefined : trace.parent, random }));
    if (isFirst) trace.parent = spanId;
  }
  const body = new Message().message(1, new Message().message(1, resource).message(2, scoped)).finish();
  return new SpanRequest(body.bytes, body.places);
}

interface SpanParts {
  service: number;
  traceId: Buffer;
  spanId: Buffer;
  parentSpanId: Buffer | undefined;
  random: () => number;
}

/** A dozen attributes, of which five are 82 random bytes in hex: incompressible. */
function makeSpan({ service, traceId, spanId, parentSpanId, random }: SpanParts): Message {
  const route = Math.floor(random() * routesPerService);
  const path = `/api/v${1 + (service % 3)}/things-${route}`;
  const isError = random() < 0.02;
  const durationNs = Math.floor(20_000 + random() ** 4 * 400e6);
  const hex = (bytes: number): string => fill(Buffer.alloc(bytes), random).toString("hex");
  const span = new Message().id(1, traceId, "traceId").id(2, spanId, "spanId");
  if (parentSpanId) span.id(4, parentSpanId, "parentSpanId");
  span.text(5, `${route % 4 === 0 ? "POST" : "GET"} ${path}/:id`).varint(6, 1 + Math.floor(random() * 3));
  span.times(Math.floor(random() * 200e6) + durationNs, durationNs);
  const attributes: Record<string, string | number> = {
    "http.request.method": route % 4 === 0 ? "POST" : "GET",
    "http.route": `${path}/:id`,
    "http.response.status_code": isError ? 500 : 200,
    "url.path": `${path}/${Math.floor(random() * 5_000)}`,
    "server.address": `service-${(service + route) % services}.prod.svc`,
    "user_agent.original": agents[Math.floor(random() * agents.length)] as string,
    "network.peer.address": `10.${service % 200}.${Math.floor(random() * 250)}.${Math.floor(random() * 250)}`,
    "thread.id": Math.floor(random() * 64),
    "http.request.id": hex(32),
    "enduser.id": hex(16),
    "session.id": hex(20),
    "cache.entry": hex(14),
  };
  for (const [key, value] of Object.entries(attributes)) span.attribute(key, value, 9);
  if (isError) {
    const exception = new Message()
      .attribute("exception.type", "TimeoutError", 3)
      .attribute("exception.message", "upstream took too long", 3);
    span.message(11, new Message().fixed64(1, 1_700_000_000_000_000_000n).text(2, "exception").append(exception));
    span.message(15, new Message().text(2, "upstream took too long").varint(3, 2));
  }
  return span;
}

function fill(bytes: Buffer, random: () => number): Buffer {
  for (let at = 0; at < bytes.length; at++) bytes[at] = Math.floor(random() * 256);
  return bytes;
}

/** A minimal protobuf encoder that records the offsets of ids and times. */
class Message {
  readonly #parts: Buffer[] = [];
  #sizeBytes = 0;
  #places: Places[] = [];
  #own: Places | undefined;

  finish(): { bytes: Buffer; places: readonly Places[] } {
    return { bytes: Buffer.concat(this.#parts), places: this.#places };
  }

  varint(field: number, value: number): this {
    return this.#add(varint(field * 8), varint(value));
  }

  fixed64(field: number, value: bigint): this {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(value);
    return this.#add(varint(field * 8 + 1), bytes);
  }

  text(field: number, text: string): this {
    const bytes = Buffer.from(text);
    return this.#add(varint(field * 8 + 2), varint(bytes.length), bytes);
  }

  id(field: number, id: Buffer, place: "traceId" | "spanId" | "parentSpanId"): this {
    this.#add(varint(field * 8 + 2), varint(id.length));
    this.#span()[place] = this.#sizeBytes;
    return this.#add(Buffer.from(id));
  }

  times(startOffsetNs: number, durationNs: number): this {
    const own = Object.assign(this.#span(), { startOffsetNs, durationNs });
    own.start = this.fixed64(7, 0n).#sizeBytes - 8;
    own.end = this.fixed64(8, 0n).#sizeBytes - 8;
    return this;
  }

  attribute(key: string, value: string | number, field = 1): this {
    const content = typeof value === "string" ? new Message().text(1, value) : new Message().varint(3, value);
    return this.message(field, new Message().text(1, key).message(2, content));
  }

  message(field: number, content: Message): this {
    this.#add(varint(field * 8 + 2), varint(content.#sizeBytes));
    return this.append(content);
  }

  append(content: Message): this {
    for (const place of content.#places) this.#places.push(moved(place, this.#sizeBytes));
    return this.#add(...content.#parts);
  }

  #span(): Places {
    if (this.#own === undefined) {
      this.#own = { traceId: 0, spanId: 0, parentSpanId: -1, start: 0, end: 0, startOffsetNs: 0, durationNs: 0 };
      this.#places.push(this.#own);
    }
    return this.#own;
  }

  #add(...parts: Buffer[]): this {
    for (const part of parts) {
      this.#parts.push(part);
      this.#sizeBytes += part.length;
    }
    return this;
  }
}

function moved(place: Places, by: number): Places {
  const parentSpanId = place.parentSpanId < 0 ? -1 : place.parentSpanId + by;
  return {
    ...place,
    traceId: place.traceId + by,
    spanId: place.spanId + by,
    parentSpanId,
    start: place.start + by,
    end: place.end + by,
  };
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  return Buffer.from([...bytes, rest]);
}

/** 0 to 1, deterministic for a seed. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
