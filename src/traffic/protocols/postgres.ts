/**
 * Postgres: simple and extended queries, pipelined or not, COPY, functions, cancel. One request per Query and per Execute; errors by SQLSTATE. Used
 * where the kernel does not count itself: pipelined requests, and plaintext in pieces.
 */

import type { SqlTemplate } from "../../redact/index.ts";
import type { Chunk, DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { type OpenRequest, RequestsInFlight } from "../requests/requests-in-flight.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { FramedStream, type FrameRules, type FrameTimes } from "./framed-stream.ts";
import { createSqlTemplater, type SqlTemplater } from "./sql-templater.ts";

const protocol3 = 196_608;
const cancelRequest = 80_877_102;
const sslRequest = 80_877_103;
const gssRequest = 80_877_104;
const maxStatements = 1024;
const maxMessageBytes = 1 << 30;
/** Text holds no zero bytes, so hardly any part of a row looks like a length below this. */
const maxBeginningBytes = 1 << 20;
const unknownNames: SqlTemplate = { verb: "", template: unknownRoute };
/** Values of `OpenRequest.state`: how the reply ends. */
const simple = 1;
const extended = 2;

/** The first message of a connection, which has no type byte. Null for other bytes. */
export function postgresStartup(bytes: Buffer): "startup" | "cancel" | "encrypt" | null {
  if (bytes.length < 8) return null;
  const length = bytes.readInt32BE(0);
  const code = bytes.readInt32BE(4);
  if (code === protocol3 || code === protocol3 + 2) return length > 8 && length <= 10_000 ? "startup" : null;
  if (code === cancelRequest) return length >= 16 && length <= 272 ? "cancel" : null;
  return (code === sslRequest || code === gssRequest) && length === 8 ? "encrypt" : null;
}

const letters = (text: string): ReadonlySet<number> => new Set(Buffer.from(text));
const requestTypes = letters("QPBEDSCHFXpdcf");
const replyTypes = letters("RSKZTDCEN123nsIVAGHWtdcv");

function frameRules(types: ReadonlySet<number>): FrameRules {
  return {
    headerBytes: 5,
    maxHeadBytes: 1024,
    frameLength(bytes: Buffer, at: number): number {
      const length = bytes.readUInt32BE(at + 1);
      return types.has(bytes[at] ?? 0) && length >= 4 && length <= maxMessageBytes ? length + 1 : 0;
    },
    /** A row does not start a reply, nor parameters of a statement a request. A message that does is followed by another one or by nothing. */
    isBeginning(bytes: Buffer): boolean {
      const next = bytes.readUInt32BE(1) + 1;
      if (types === requestTypes) return next <= maxBeginningBytes;
      if (bytes[0] === 0x44 || bytes[0] === 0x64 || next > bytes.length) return false;
      if (next === bytes.length) return true;
      return next + 5 <= bytes.length && types.has(bytes[next] ?? 0) && bytes.readUInt32BE(next + 1) <= maxBeginningBytes;
    },
  };
}

/** Whether a payload starts with a message that only a client sends, or only a server. */
export function isPostgresMessage(bytes: Buffer, isRequest: boolean): boolean {
  return bytes.length >= 5 && frameRules(isRequest ? requestTypes : replyTypes).frameLength(bytes, 0) > 0;
}

/** Shared by all connections, which tend to send the same statements. */
let templater: SqlTemplater | undefined;

class PostgresDecoder implements ProtocolDecoder {
  readonly #inFlight: RequestsInFlight;
  readonly #requests: FramedStream;
  readonly #replies: FramedStream;
  /** Prepared statements and bound portals, by name. */
  readonly #statements = new Map<string, SqlTemplate>();
  readonly #portals = new Map<string, SqlTemplate>();
  /** Encrypted from here on. */
  #isOpaque = false;
  #isFirst = true;
  /** For each pending Sync, the last request before it: after an error the server skips everything up to the next Sync. */
  #syncs: (OpenRequest | null)[] = [];
  /** SQLSTATE of an error in a batch before its Sync was sent: requests up to that Sync are not run either. */
  #failedBy: string | null = null;
  /** Statements that were parsed but not run yet: emitted only if parsing fails. */
  #parsed: { names: SqlTemplate; atNs: number; startNs: number; lengthBytes: number } | null = null;

  constructor(context: DecoderContext) {
    this.#inFlight = new RequestsInFlight(context, 2048);
    this.#requests = new FramedStream(
      frameRules(requestTypes),
      (bytes, from, to, frame) => this.#onRequest(bytes, from, to, frame),
      () => context.sink.undecoded(1),
    );
    this.#replies = new FramedStream(
      frameRules(replyTypes),
      (bytes, from, to, frame) => this.#onReply(bytes, from, to, frame),
      () => {},
    );
  }

  onRequestBytes(chunk: Chunk): void {
    if (this.#isFirst && this.#skipStartup(chunk)) return;
    this.#isFirst = false;
    if (this.#isOpaque) return;
    if (this.#replies.isLost) {
      // Replies were truncated; most clients wait for them before they send again.
      this.#inFlight.endResponded();
      this.#syncs = [];
    }
    this.#requests.push(chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    // The reply to a request for encryption is one letter.
    if (this.#isFirst && chunk.fullLength === 1) {
      this.#isOpaque = chunk.bytes[0] === 0x53 || chunk.bytes[0] === 0x47;
      return;
    }
    if (this.#isOpaque) return;
    const wasLost = this.#replies.isLost;
    this.#replies.push(chunk);
    if (this.#replies.isLost) this.#inFlight.respondedAll(chunk.atNs, wasLost ? chunk.fullLength : 0);
  }

  onPrepared(bytes: Buffer, isCut: boolean): void {
    const rules = frameRules(requestTypes);
    for (let at = 0; at + rules.headerBytes <= bytes.length; ) {
      const length = rules.frameLength(bytes, at);
      if (length === 0) return;
      const to = Math.min(bytes.length, at + length);
      if (bytes[at] === 0x50) this.#parse(bytes, at + 5, to, isCut && at + length > bytes.length);
      at += length;
    }
  }

  onMissed(what: "requests" | "replies"): void {
    if (what === "requests") this.#requests.lose();
    this.#replies.lose();
    this.#inFlight.giveUp();
    this.#syncs = [];
    this.#failedBy = null;
    this.#parsed = null;
  }

  onIdle(): void {
    if (this.#replies.isLost) this.#inFlight.endResponded();
  }

  onClose(atNs: number | null): void {
    this.#inFlight.close(atNs);
  }

  #skipStartup(chunk: Chunk): boolean {
    const kind = postgresStartup(chunk.bytes);
    if (kind === null) return false;
    if (kind !== "encrypt") this.#isFirst = false;
    return true;
  }

  #onRequest(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const body = from + 5;
    switch (bytes[from] ?? 0) {
      case 0x51: {
        // Query
        const names = namesOf(bytes, body, to, to - from < frame.lengthBytes);
        const request = this.#inFlight.begin(frame, names.verb, names.template, frame.lengthBytes);
        request.state = simple;
        break;
      }
      case 0x50: {
        const names = this.#parse(bytes, body, to, to - from < frame.lengthBytes);
        if (names !== null) this.#parsed = { names, atNs: frame.atNs, startNs: frame.startNs, lengthBytes: frame.lengthBytes };
        break;
      }
      case 0x42: {
        // Bind: portal, statement
        this.#parsed = null;
        const portalEnd = zeroFrom(bytes, body, to);
        const nameEnd = portalEnd < 0 ? -1 : zeroFrom(bytes, portalEnd + 1, to);
        if (nameEnd < 0) break;
        const names = this.#statements.get(text(bytes, portalEnd + 1, nameEnd)) ?? unknownNames;
        remember(this.#portals, text(bytes, body, portalEnd), names);
        break;
      }
      case 0x45: {
        // Execute: portal
        const nameEnd = zeroFrom(bytes, body, to);
        const names = nameEnd < 0 ? unknownNames : (this.#portals.get(text(bytes, body, nameEnd)) ?? unknownNames);
        const request = this.#inFlight.begin(frame, names.verb, names.template, frame.lengthBytes);
        request.state = extended;
        if (this.#failedBy !== null) this.#fail(request, this.#failedBy, frame.atNs);
        break;
      }
      case 0x53: // Sync
        this.#failedBy = null;
        if (this.#syncs.length < 2048) this.#syncs.push(this.#inFlight.newest ?? null);
        break;
      case 0x46: // Function call
        this.#inFlight.begin(frame, "CALL", "function call", frame.lengthBytes).state = simple;
        break;
      case 0x43: // Close
        if (to - body > 1 && bytes[body] === 0x53)
          this.#statements.delete(text(bytes, body + 1, Math.max(body + 1, zeroFrom(bytes, body + 1, to))));
        break;
    }
  }

  #onReply(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const type = bytes[from];
    // Notices, settings and notifications are not replies.
    if (type === 0x4e || type === 0x53 || type === 0x41) return;
    const request = this.#inFlight.oldest;
    if (type === 0x5a) {
      this.#onReady(request, frame);
      return;
    }
    if (request === undefined) {
      if (type === 0x45) this.#failParse(bytes, from, to, frame);
      return;
    }
    this.#inFlight.responded(request, frame.lengthBytes, frame.atNs, frame.lastAtNs);
    if (type === 0x45) {
      request.isError = true;
      request.status = sqlState(bytes, from + 5, to);
      if (request.state === extended) this.#failUntilSync(request);
      return;
    }
    // CommandComplete, EmptyQuery, PortalSuspended end an Execute; a simple query may have several, and ends with ReadyForQuery.
    if (request.state === extended && (type === 0x43 || type === 0x49 || type === 0x73)) this.#inFlight.end(request);
  }

  /** Parse: name, text. */
  #parse(bytes: Buffer, from: number, to: number, isCut: boolean): SqlTemplate | null {
    const nameEnd = zeroFrom(bytes, from, to);
    if (nameEnd < 0) return null;
    const names = namesOf(bytes, nameEnd + 1, to, isCut);
    remember(this.#statements, text(bytes, from, nameEnd), names);
    return names;
  }

  #failParse(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const parsed = this.#parsed;
    if (parsed === null) return;
    this.#parsed = null;
    const request = this.#inFlight.begin(parsed, parsed.names.verb, parsed.names.template, parsed.lengthBytes);
    request.isError = true;
    request.status = sqlState(bytes, from + 5, to);
    this.#inFlight.responded(request, frame.lengthBytes, frame.atNs, frame.lastAtNs);
    this.#inFlight.end(request);
    if (this.#syncs.length === 0) this.#failedBy = request.status;
  }

  /** ReadyForQuery: a simple query or a Sync is complete. */
  #onReady(request: OpenRequest | undefined, frame: FrameTimes): void {
    this.#failedBy = null;
    if (request?.state === simple && request.firstByteNs >= 0) {
      this.#inFlight.responded(request, frame.lengthBytes, frame.atNs, frame.lastAtNs);
      this.#inFlight.end(request);
      return;
    }
    this.#syncs.shift();
  }

  /** The rest of the batch is not run. */
  #failUntilSync(failed: OpenRequest): void {
    const last = this.#syncs[0];
    const isKnown = last !== undefined && last !== null && this.#inFlight.find((request) => request === last) !== undefined;
    const { status, lastByteNs } = failed;
    this.#inFlight.end(failed);
    if (last === undefined) this.#failedBy = status;
    else if (!isKnown || last === failed) return;
    for (let next = this.#inFlight.oldest; next?.state === extended; next = this.#inFlight.oldest) {
      this.#fail(next, status, lastByteNs);
      if (next === last) return;
    }
  }

  #fail(request: OpenRequest, status: string, atNs: number): void {
    request.isError = true;
    request.status = status;
    this.#inFlight.responded(request, 0, atNs);
    this.#inFlight.end(request);
  }
}

function namesOf(bytes: Buffer, from: number, to: number, isCut: boolean): SqlTemplate {
  const end = zeroFrom(bytes, from, to);
  templater ??= createSqlTemplater({ dialect: "postgres" });
  return templater(bytes, from, end < 0 ? to : end, isCut && end < 0);
}

function remember(names: Map<string, SqlTemplate>, key: string, value: SqlTemplate): void {
  if (names.size >= maxStatements && !names.has(key)) {
    for (const oldest of names.keys()) {
      names.delete(oldest);
      break;
    }
  }
  names.set(key, value);
}

function zeroFrom(bytes: Buffer, from: number, to: number): number {
  for (let at = from; at < to; at++) if (bytes[at] === 0) return at;
  return -1;
}

function text(bytes: Buffer, from: number, to: number): string {
  // Most statements and portals are unnamed.
  return from >= to ? "" : bytes.toString("latin1", from, to);
}

/** `42P01` of an ErrorResponse: each field is a letter and a zero-terminated string. */
export function sqlState(bytes: Buffer, from: number, to: number): string {
  let at = from;
  while (at < to && bytes[at] !== 0) {
    const end = zeroFrom(bytes, at + 1, to);
    if (end < 0) break;
    if (bytes[at] === 0x43) {
      const code = text(bytes, at + 1, end);
      return /^[0-9A-Z]{5}$/.test(code) ? code : "error";
    }
    at = end + 1;
  }
  return "error";
}

export function createPostgresDecoder(context: DecoderContext): ProtocolDecoder {
  return new PostgresDecoder(context);
}
