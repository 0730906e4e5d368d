/** Kafka: requests by API and, where it is cheap to find, topic; paired by correlation id; errors by Kafka's error codes. */

import type { DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { type OpenRequest, RequestsInFlight } from "../requests/requests-in-flight.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { FramedStream, type FrameTimes } from "./framed-stream.ts";
import { kafkaApi, kafkaErrorOffset } from "./kafka-apis.ts";
import { PairedByName } from "./paired-streams.ts";

const produce = 0;
const fetch = 1;
const apiVersions = 18;
/** Default of the brokers' `socket.request.max.bytes`; a response may be as large. */
const maxFrameBytes = 104_857_600;
const requestHeadBytes = 14;

/** Reads big-endian fields; past the end they are 0, and `isCut` is true. */
class Fields {
  readonly #bytes: Buffer;
  readonly #to: number;
  at: number;
  isCut = false;

  constructor(bytes: Buffer, at: number, to: number) {
    this.#bytes = bytes;
    this.at = at;
    this.#to = to;
  }

  int(size: 1 | 2 | 4): number {
    const at = this.#take(size);
    return at < 0 ? 0 : this.#bytes.readIntBE(at, size);
  }

  varint(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.int(1) & 0xff;
      value += (byte & 0x7f) * 2 ** shift;
      if ((byte & 0x80) === 0) return value;
    }
    this.isCut = true;
    return 0;
  }

  /** Empty when null. */
  text(isCompact: boolean): string {
    const length = isCompact ? this.varint() - 1 : this.int(2);
    if (length <= 0) return "";
    const at = this.#take(length);
    return at < 0 ? "" : this.#bytes.toString("latin1", at, at + length);
  }

  count(isCompact: boolean): number {
    return isCompact ? this.varint() - 1 : this.int(4);
  }

  skip(size: number): void {
    this.#take(size);
  }

  skipTags(): void {
    for (let left = Math.min(this.varint(), 16); left > 0 && !this.isCut; left--) {
      this.varint();
      this.#take(this.varint());
    }
  }

  #take(size: number): number {
    const at = this.at;
    if (this.isCut || at + size > this.#to) {
      this.isCut = true;
      return -1;
    }
    this.at = at + size;
    return at;
  }
}

/** Whether API, version and client id length of a request are consistent. */
export function isKafkaRequest(bytes: Buffer, at: number, lengthBytes: number): boolean {
  if (bytes.length - at < requestHeadBytes) return false;
  const frameBytes = bytes.readInt32BE(at);
  if (frameBytes < 10 || frameBytes > maxFrameBytes || frameBytes + 4 < lengthBytes - at) return false;
  if (kafkaApi(bytes.readInt16BE(at + 4), bytes.readInt16BE(at + 6)) === null || bytes.readInt32BE(at + 8) < 0) return false;
  const idBytes = bytes.readInt16BE(at + 12);
  if (idBytes < -1 || idBytes > 256 || idBytes + 10 > frameBytes) return false;
  const end = Math.min(bytes.length, at + requestHeadBytes + Math.max(0, idBytes));
  for (let index = at + requestHeadBytes; index < end; index++) {
    const byte = bytes[index] ?? 0;
    if (byte < 0x20 || byte > 0x7e) return false;
  }
  return true;
}

class KafkaExchange {
  readonly decoder: PairedByName;
  readonly #context: DecoderContext;
  readonly #inFlight: RequestsInFlight;
  readonly #replies: FramedStream;

  constructor(context: DecoderContext) {
    this.#context = context;
    this.#inFlight = new RequestsInFlight(context, 1024);
    const onLost = () => context.sink.undecoded(1);
    const requestRules = {
      headerBytes: requestHeadBytes,
      frameLength: (bytes: Buffer, at: number) => (isKafkaHead(bytes, at) ? bytes.readInt32BE(at) + 4 : 0),
    };
    const requests = new FramedStream(requestRules, (bytes, from, to, frame) => this.#onRequest(bytes, from, to, frame), onLost);
    const replyRules = { headerBytes: 8, maxHeadBytes: 128, frameLength: (bytes: Buffer, at: number) => this.#replyLength(bytes, at) };
    this.#replies = new FramedStream(replyRules, (bytes, from, to, frame) => this.#onReply(bytes, from, to, frame), onLost);
    this.decoder = new PairedByName(this.#inFlight, requests, this.#replies);
  }

  /** Only the correlation id of an open request distinguishes a response from other bytes. */
  #replyLength(bytes: Buffer, at: number): number {
    const length = bytes.readInt32BE(at);
    if (length < 4 || length > maxFrameBytes) return 0;
    return this.#replies.isLost && this.#inFlight.byId(bytes.readInt32BE(at + 4)) === undefined ? 0 : length + 4;
  }

  #onRequest(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const key = bytes.readInt16BE(from + 4);
    const version = bytes.readInt16BE(from + 6);
    const api = kafkaApi(key, version);
    const method = api === null || api.name === "" ? `Api${key}` : api.name;
    const fields = new Fields(bytes, from + 12, to);
    fields.text(false);
    const isFlexible = api !== null && version >= api.flexibleFrom;
    if (isFlexible) fields.skipTags();
    const topic =
      key === produce ? producedTopic(fields, version, isFlexible) : key === fetch ? fetchedTopic(fields, version, isFlexible) : null;
    const route = topic === null || topic.name === "" ? method : `${method} ${topic.name}`;
    const request = this.#inFlight.begin(
      frame,
      method,
      api === null ? unknownRoute : route,
      frame.lengthBytes,
      bytes.readInt32BE(from + 8),
    );
    request.state = (key << 16) | version;
    // The broker sends no response.
    if (topic?.isOneWay === true) this.#inFlight.end(request);
  }

  #onReply(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const request = this.#inFlight.byId(bytes.readInt32BE(from + 4));
    if (request === undefined) {
      this.#context.sink.undecoded(1);
      return;
    }
    const code = errorCode(request, bytes, from + 8, to);
    if (code !== 0) {
      request.status = String(code);
      request.isError = true;
    }
    this.#inFlight.responded(request, frame.lengthBytes, frame.atNs, frame.lastAtNs);
    this.#inFlight.end(request);
  }
}

function isKafkaHead(bytes: Buffer, at: number): boolean {
  const length = bytes.readInt32BE(at);
  const idBytes = bytes.readInt16BE(at + 12);
  return length >= 10 && length <= maxFrameBytes && idBytes >= -1 && idBytes <= 1024 && kafkaApi(bytes.readInt16BE(at + 4), 0) !== null;
}

interface Topic {
  /** Empty if unknown. */
  name: string;
  isOneWay: boolean;
}

function producedTopic(fields: Fields, version: number, isFlexible: boolean): Topic {
  if (version >= 3) fields.text(isFlexible); // transaction
  const acks = fields.int(2);
  const isOneWay = acks === 0 && !fields.isCut;
  fields.skip(4); // timeout
  // From version 13 on, topics are identified by UUID.
  return { name: version >= 13 ? "" : topicName(fields, isFlexible), isOneWay };
}

function fetchedTopic(fields: Fields, version: number, isFlexible: boolean): Topic {
  if (version >= 13) return { name: "", isOneWay: false };
  fields.skip(12); // replica, longest wait, least bytes
  if (version >= 3) fields.skip(4); // most bytes
  if (version >= 4) fields.skip(1); // isolation
  if (version >= 7) fields.skip(8); // session
  return { name: topicName(fields, isFlexible), isOneWay: false };
}

function topicName(fields: Fields, isFlexible: boolean): string {
  const count = fields.count(isFlexible);
  if (fields.isCut || count <= 0) return "";
  if (count > 1) return "(several topics)";
  const name = fields.text(isFlexible);
  return /^[A-Za-z0-9._-]{1,249}$/.test(name) ? name.replace(/[0-9a-f]{8}-[0-9a-f-]{27}|\d{6,}/g, "{id}").slice(0, 120) : "";
}

/** 0 also if unknown. */
function errorCode(request: OpenRequest, bytes: Buffer, from: number, to: number): number {
  const key = request.state >> 16;
  const version = request.state & 0xffff;
  const api = kafkaApi(key, version);
  if (api === null) return 0;
  const fields = new Fields(bytes, from, to);
  const isFlexible = version >= api.flexibleFrom;
  // Responses of ApiVersions must be readable for clients of any version.
  if (isFlexible && key !== apiVersions) fields.skipTags();
  if (key === produce) return produceError(fields, isFlexible, version);
  const offset = kafkaErrorOffset(api, version);
  if (offset < 0) return 0;
  fields.skip(offset);
  return fields.int(2);
}

/** The error of the first partition. */
function produceError(fields: Fields, isFlexible: boolean, version: number): number {
  if (fields.count(isFlexible) <= 0) return 0;
  if (version >= 13) fields.skip(16);
  else fields.text(isFlexible);
  if (fields.count(isFlexible) <= 0) return 0;
  fields.skip(4);
  return fields.int(2);
}

export function createKafkaDecoder(context: DecoderContext): ProtocolDecoder {
  return new KafkaExchange(context).decoder;
}
