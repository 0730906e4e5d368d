/** memcached's binary protocol. The route is the command; quiet commands end when a later one gets its reply. */

import type { Chunk, DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { type OpenRequest, RequestsInFlight } from "../requests/requests-in-flight.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { FramedStream, type FrameTimes } from "./framed-stream.ts";

const commands = (
  "get set add replace delete incr decr quit flush get noop version get get append prepend stat set add replace delete incr decr quit flush append prepend " +
  "verbosity touch gat gat"
).split(" ");
/** Get a reply only for hits or errors. */
const quiet = new Set([0x09, 0x0d, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1e]);
const statuses: ReadonlyMap<number, string> = new Map([
  [0x01, "NOT_FOUND"],
  [0x02, "EXISTS"],
  [0x03, "TOO_LARGE"],
  [0x04, "INVALID"],
  [0x05, "NOT_STORED"],
  [0x06, "NOT_A_NUMBER"],
  [0x08, "NOT_AUTHENTICATED"],
  [0x20, "AUTHENTICATION_ERROR"],
  [0x81, "UNKNOWN_COMMAND"],
  [0x82, "OUT_OF_MEMORY"],
  [0x83, "NOT_SUPPORTED"],
  [0x84, "INTERNAL_ERROR"],
  [0x85, "BUSY"],
  [0x86, "TEMPORARY_FAILURE"],
]);
const expected = new Set([0x00, 0x01, 0x02, 0x05]);
export const memcachedRequestMagic = 0x80;
export const memcachedReplyMagic = 0x81;
const statOpcode = 0x10;
const maxBodyBytes = 1 << 30;

function frameRules(magic: number) {
  return {
    headerBytes: 24,
    maxHeadBytes: 24,
    frameLength(bytes: Buffer, at: number): number {
      const bodyBytes = bytes.readUInt32BE(at + 8);
      const isValid = bytes[at] === magic && bytes[at + 5] === 0 && bytes.readUInt16BE(at + 2) + (bytes[at + 4] ?? 0) <= bodyBytes;
      return isValid && bodyBytes <= maxBodyBytes ? 24 + bodyBytes : 0;
    },
  };
}

class MemcachedBinaryDecoder implements ProtocolDecoder {
  readonly #context: DecoderContext;
  readonly #inFlight: RequestsInFlight;
  readonly #requests: FramedStream;
  readonly #replies: FramedStream;

  constructor(context: DecoderContext) {
    this.#context = context;
    this.#inFlight = new RequestsInFlight(context, 4096);
    this.#requests = new FramedStream(
      frameRules(memcachedRequestMagic),
      (bytes, from, _to, frame) => this.#onRequest(bytes, from, frame),
      () => context.sink.undecoded(1),
    );
    this.#replies = new FramedStream(
      frameRules(memcachedReplyMagic),
      (bytes, from, _to, frame) => this.#onReply(bytes, from, frame),
      (chunk) => this.#inFlight.respondedAll(chunk.atNs),
    );
  }

  onRequestBytes(chunk: Chunk): void {
    if (this.#replies.isLost) {
      this.#replies.reset();
      this.#inFlight.endResponded();
    }
    this.#requests.push(chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    this.#replies.push(chunk);
  }

  onMissed(what: "requests" | "replies"): void {
    if (what === "requests") this.#requests.lose();
    else this.#replies.lose();
    this.#inFlight.giveUp();
  }

  onIdle(): void {
    if (this.#replies.isLost) this.#inFlight.endResponded();
  }

  onClose(atNs: number | null): void {
    this.#inFlight.close(atNs);
  }

  #onRequest(bytes: Buffer, from: number, frame: FrameTimes): void {
    const opcode = bytes[from + 1] ?? 0;
    const name = opcode >= 0x20 && opcode <= 0x22 ? "sasl" : commands[opcode];
    if (name === "quit") return;
    const request = this.#inFlight.begin(frame, name ?? "", name ?? unknownRoute, frame.lengthBytes, bytes.readUInt32BE(from + 12));
    request.state = opcode;
  }

  #onReply(bytes: Buffer, from: number, frame: FrameTimes): void {
    const opcode = bytes[from + 1] ?? 0;
    const request = this.#findRequest(opcode, bytes.readUInt32BE(from + 12));
    if (request === undefined) {
      this.#context.sink.undecoded(1);
      return;
    }
    this.#endQuietBefore(request, frame.atNs);
    const code = bytes.readUInt16BE(from + 6);
    request.status = this.#statusOf(request, code);
    request.isError = !expected.has(code);
    this.#inFlight.responded(request, frame.lengthBytes, frame.atNs, frame.lastAtNs);
    // Statistics are separate packets; the last one has no name.
    if (opcode !== statOpcode || code !== 0 || bytes.readUInt16BE(from + 2) === 0) this.#inFlight.end(request);
  }

  #statusOf(request: OpenRequest, code: number): string {
    if (request.method === "get" && code <= 1) return code === 0 ? "HIT" : "MISS";
    return code === 0 ? "" : (statuses.get(code) ?? `0x${code.toString(16)}`);
  }

  #findRequest(opcode: number, opaque: number): OpenRequest | undefined {
    return this.#inFlight.find((request) => request.id === opaque && request.state === opcode);
  }

  /** Replies are in order, so earlier quiet commands have none. */
  #endQuietBefore(request: OpenRequest, atNs: number): void {
    for (let oldest = this.#inFlight.oldest; oldest !== undefined && oldest !== request; oldest = this.#inFlight.oldest) {
      if (!quiet.has(oldest.state)) return;
      if (oldest.method === "get") oldest.status = "MISS";
      this.#inFlight.responded(oldest, 0, atNs);
      this.#inFlight.end(oldest);
    }
  }
}

export function createMemcachedBinaryDecoder(context: DecoderContext): ProtocolDecoder {
  return new MemcachedBinaryDecoder(context);
}
