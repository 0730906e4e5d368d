/**
 * Decodes the streams of one HTTP/2 connection from the frames that the kernel emits, and emits each request when its response is complete. gRPC is
 * recognised by its content type and gets its own status. May join in the middle of a connection: fields that were not seen are `unknown`.
 */

import type { TrafficRole } from "../../core/messages.ts";
import type { Chunk, DecoderContext, ProtocolDecoder, RequestSink } from "../../core/protocol-decoder.ts";
import { createRouteTemplater } from "../../requests/route-template.ts";
import type { FieldVisitor } from "./hpack.ts";
import { hostName } from "./http1-head.ts";
import { HeaderBlocks, type OpenBlock } from "./http2-blocks.ts";
import { addRequestField, addResponseField, createExchange, type Exchange, finishExchange } from "./http2-exchange.ts";
import { type FrameEntry, frameFlag, frameHeaderBytes, frameType, readFrameEntry, sequenceBytes } from "./http2-frames.ts";

export interface Http2Options {
  /** Open streams of a connection; above that, the oldest is dropped and counted as undecoded. Default 2048. */
  maxStreams?: number;
  /** Shared by connections, which carry the same targets. */
  template?: (target: string, isCut?: boolean) => string;
}

const requestNames = new Set([":method", ":path", ":authority", "host", "content-type", "te", "grpc-timeout"]);
const responseNames = new Set([":status", "content-type", "grpc-status"]);
/** Fields and bytes of a message that a capture keeps. */
const maxDetailFields = 64;
const maxBodyBytes = 1024;

interface Direction {
  blocks: HeaderBlocks;
  isRequest: boolean;
  /** Sequence number of the next record; -1 before the first. */
  nextSequence: number;
}

class Http2Decoder implements ProtocolDecoder {
  readonly #sink: RequestSink;
  readonly #role: TrafficRole;
  readonly #isCapturing: () => boolean;
  readonly #template: (target: string) => string;
  readonly #maxStreams: number;
  readonly #requests: Direction;
  readonly #responses: Direction;
  readonly #streams = new Map<number, Exchange>();
  /** gRPC calls have been seen. */
  #hasCalls = false;
  #lastAuthority = "";
  #lastHost: string | null = null;
  readonly #frame: FrameEntry = { type: 0, flags: 0, streamId: 0, lengthBytes: 0, from: 0, to: 0 };

  constructor(context: DecoderContext, options: Http2Options) {
    this.#sink = context.sink;
    this.#role = context.role;
    this.#isCapturing = context.isCapturing ?? (() => false);
    this.#template = options.template ?? createRouteTemplater(256);
    this.#maxStreams = options.maxStreams ?? 2048;
    this.#requests = this.#createDirection(true, requestNames, (block, read) => this.#onRequestBlock(block, read));
    this.#responses = this.#createDirection(false, responseNames, (block, read) => this.#onResponseBlock(block, read));
  }

  onRequestBytes(chunk: Chunk): void {
    this.#onRecord(this.#requests, chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    this.#onRecord(this.#responses, chunk);
  }

  /** Sequence numbers reveal lost records, too, except for the last one of a connection. */
  onMissed(what: "requests" | "replies"): void {
    this.#lose(what === "requests" ? this.#requests : this.#responses);
  }

  /** Every response has an explicit end, so idle time ends none. Streams that were open when records were lost may never end. */
  onIdle(): void {
    let lost = 0;
    for (const exchange of this.#streams.values()) {
      if (!exchange.isReplyUncertain) continue;
      this.#streams.delete(exchange.streamId);
      if (!exchange.isPushed) lost++;
    }
    if (lost > 0) this.#sink.undecoded(lost);
  }

  onClose(atNs: number | null): void {
    if (atNs === null) {
      if (this.#streams.size > 0) this.#sink.undecoded(this.#streams.size);
      this.#streams.clear();
      return;
    }
    for (const exchange of this.#streams.values()) {
      if (!exchange.hasResponse && exchange.isReplyUncertain) {
        if (!exchange.isPushed) this.#sink.undecoded(1);
        continue;
      }
      // The kernel emits only the end of a body: an aborted one lasts until now, unless its end was lost.
      if (!exchange.isReplyUncertain) exchange.lastByteNs = Math.max(exchange.lastByteNs, atNs);
      this.#end(exchange);
    }
  }

  #createDirection(
    isRequest: boolean,
    names: ReadonlySet<string>,
    onBlock: (block: OpenBlock, read: (visit: FieldVisitor) => void) => void,
  ): Direction {
    const isWanted = (name: string): boolean => names.has(name) || this.#isCapturing();
    return { blocks: new HeaderBlocks({ isWanted }, onBlock), isRequest, nextSequence: -1 };
  }

  #onRecord(direction: Direction, chunk: Chunk): void {
    const { bytes } = chunk;
    if (bytes.length < sequenceBytes) {
      this.#lose(direction);
      direction.nextSequence = -1;
      return;
    }
    const sequence = bytes.readUInt32LE(0);
    if (direction.nextSequence !== -1 && sequence !== direction.nextSequence) this.#lose(direction);
    direction.nextSequence = (sequence + 1) >>> 0;
    for (let at = sequenceBytes; at < bytes.length; ) {
      at = readFrameEntry(bytes, at, this.#frame);
      if (at === -1) {
        this.#lose(direction);
        return;
      }
      this.#onFrame(direction, this.#frame, chunk);
    }
  }

  #onFrame(direction: Direction, frame: FrameEntry, chunk: Chunk): void {
    switch (frame.type) {
      case frameType.headers:
      case frameType.pushPromise:
      case frameType.continuation:
      case frameType.more:
        direction.blocks.push(frame, chunk.bytes, chunk.atNs, chunk.startNs);
        break;
      case frameType.data:
        this.#onData(direction, frame, chunk);
        break;
      case frameType.reset:
        this.#onReset(direction, frame, chunk);
        break;
      case frameType.goAway:
        this.#onGoAway(direction, frame, chunk);
        break;
      default:
        break;
    }
  }

  #lose(direction: Direction): void {
    direction.blocks.lose();
    for (const exchange of this.#streams.values()) exchange.isReplyUncertain = true;
  }

  #onRequestBlock(block: OpenBlock, read: (visit: FieldVisitor) => void): void {
    const known = this.#streams.get(block.streamId);
    const exchange = known ?? createExchange(block.streamId, block, this.#role);
    if (known === undefined) {
      if (this.#isCapturing())
        exchange.detail = { target: "", requestHeaders: [], responseHeaders: [], requestBody: null, responseBody: null };
      exchange.isAmongCalls = this.#hasCalls;
      this.#open(exchange);
    }
    exchange.requestBytes += block.wireBytes;
    // A second block is trailers, which hold no names.
    read((name, value) => {
      if (name === null) exchange.hasUnknownFields = true;
      if (name === null || value === null || known !== undefined) return;
      addRequestField(exchange, name, value);
      keepField(exchange.detail?.requestHeaders, name, value);
    });
    if (exchange.detail !== null && known === undefined) exchange.detail.target = exchange.path === "" ? exchange.authority : exchange.path;
  }

  #onResponseBlock(block: OpenBlock, read: (visit: FieldVisitor) => void): void {
    if (block.promisedId !== 0) {
      this.#onPromise(block, read);
      return;
    }
    const exchange = this.#streams.get(block.streamId);
    if (exchange === undefined) {
      // Sent before Coral joined. Decoded nevertheless, to update the table.
      read(() => {});
      return;
    }
    const isTrailers = exchange.hasResponse;
    exchange.hasTrailers = isTrailers;
    exchange.responseBytes += block.wireBytes;
    read((name, value) => {
      if (name === null) exchange.hasUnknownFields = true;
      if (value === null) return;
      addResponseField(exchange, name, value, block.isEndOfStream);
      if (name !== null) keepField(exchange.detail?.responseHeaders, name, value);
    });
    exchange.lastByteNs = Math.max(exchange.lastByteNs, block.atNs);
    // 100 and 103 precede the response.
    if (exchange.status >= 100 && exchange.status < 200) {
      exchange.status = 0;
      return;
    }
    exchange.hasResponse = true;
    if (exchange.firstByteNs < 0) exchange.firstByteNs = block.atNs;
    if (block.isEndOfStream) this.#end(exchange);
  }

  #onPromise(block: OpenBlock, read: (visit: FieldVisitor) => void): void {
    read(() => {});
    const exchange = createExchange(block.promisedId, block, this.#role);
    exchange.isPushed = true;
    this.#open(exchange);
  }

  #onData(direction: Direction, { streamId, flags, lengthBytes, from, to }: FrameEntry, { bytes, atNs }: Chunk): void {
    const exchange = this.#streams.get(streamId);
    if (exchange === undefined) return;
    if (exchange.detail !== null && to > from) keepBody(exchange, direction.isRequest, bytes.subarray(from, to));
    if (direction.isRequest) {
      exchange.requestBytes += frameHeaderBytes + lengthBytes;
      return;
    }
    exchange.responseBytes += frameHeaderBytes + lengthBytes;
    exchange.lastByteNs = Math.max(exchange.lastByteNs, atNs);
    if (flags & frameFlag.endStream) this.#end(exchange);
  }

  #onReset(direction: Direction, { streamId, lengthBytes, from, to }: FrameEntry, { bytes, atNs }: Chunk): void {
    const exchange = this.#streams.get(streamId);
    if (exchange === undefined) return;
    exchange.resetCode = to - from >= 4 ? bytes.readUInt32BE(from) : 0;
    exchange.lastByteNs = Math.max(exchange.lastByteNs, atNs);
    if (direction.isRequest) exchange.requestBytes += frameHeaderBytes + lengthBytes;
    else exchange.responseBytes += frameHeaderBytes + lengthBytes;
    this.#end(exchange);
  }

  /** The server ignores streams above the last one that it names. */
  #onGoAway(direction: Direction, { from, to }: FrameEntry, { bytes, atNs }: Chunk): void {
    if (direction.isRequest || to - from < 4) return;
    const lastStreamId = bytes.readUInt32BE(from) & 0x7fffffff;
    for (const exchange of this.#streams.values()) {
      if (exchange.streamId <= lastStreamId || exchange.isPushed || exchange.hasResponse) continue;
      exchange.lastByteNs = Math.max(exchange.lastByteNs, atNs);
      this.#end(exchange);
    }
  }

  #open(exchange: Exchange): void {
    if (this.#streams.size >= this.#maxStreams) {
      const [oldest] = this.#streams.values();
      if (oldest !== undefined) {
        this.#streams.delete(oldest.streamId);
        if (!oldest.isPushed) this.#sink.undecoded(1);
      }
    }
    this.#streams.set(exchange.streamId, exchange);
  }

  #end(exchange: Exchange): void {
    this.#streams.delete(exchange.streamId);
    if (exchange.isPushed) return;
    const finished = finishExchange(exchange, this.#role, this.#hostOf(exchange.authority), this.#template);
    if (finished.protocol === "grpc") this.#hasCalls = true;
    this.#sink.finished(finished);
  }

  /** Nearly all requests of a connection name the same host. */
  #hostOf(authority: string): string | null {
    if (authority !== this.#lastAuthority) {
      this.#lastAuthority = authority;
      this.#lastHost = hostName(authority);
    }
    return this.#lastHost;
  }
}

function keepField(headers: [string, string][] | undefined, name: string, value: string): void {
  if (headers !== undefined && headers.length < maxDetailFields) headers.push([name, value]);
}

function keepBody(exchange: Exchange, isRequest: boolean, bytes: Buffer): void {
  const { detail } = exchange;
  if (detail === null || bytes.length === 0) return;
  const kept = isRequest ? detail.requestBody : detail.responseBody;
  const room = maxBodyBytes - (kept?.length ?? 0);
  if (room <= 0) return;
  const more = Buffer.from(bytes.subarray(0, room));
  const body = kept === null ? more : Buffer.concat([kept, more]);
  if (isRequest) detail.requestBody = body;
  else detail.responseBody = body;
}

export function createHttp2Decoder(context: DecoderContext, options: Http2Options = {}): ProtocolDecoder {
  return new Http2Decoder(context, options);
}
