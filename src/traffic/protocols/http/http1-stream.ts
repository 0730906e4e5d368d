/**
 * Decodes the requests of one HTTP/1 connection from all its payloads: pipelined ones, which the kernel does not track, and those of a capture.
 */

import type { TrafficRole } from "../../core/messages.ts";
import type { Chunk, DecoderContext, FinishedRequest, ProtocolDecoder, RequestDetail, RequestSink } from "../../core/protocol-decoder.ts";
import { createRouteTemplater } from "../../requests/route-template.ts";
import { isHttpError } from "./http-status.ts";
import { headerOf, methodName, parseRequestHead, parseResponseHead, type ResponseHead } from "./http1-head.ts";
import { type BodyEnd, type MessageEvents, MessageReader } from "./http1-messages.ts";

export interface Http1Options {
  /** Open requests; above that, the oldest is dropped and counted as undecoded. Default 1024. */
  maxOpen?: number;
  /** Shared by connections, which carry the same targets. */
  template?: (target: string, isCut?: boolean) => string;
}

interface Exchange {
  method: string;
  route: string;
  host: string | null;
  status: number;
  hasResponse: boolean;
  startNs: number;
  queueNs: number | null;
  firstByteNs: number;
  lastByteNs: number;
  requestBytes: number;
  responseBytes: number;
  detail: RequestDetail | null;
}

/** Bytes of a body that a capture keeps. */
const maxBodyBytes = 1024;
const requestStart = /^[A-Z][A-Z-]{1,22} \S/;
const partOfRequestStart = /^[A-Z][A-Z-]{0,22} ?$/;
const responseStart = "HTTP/1.";

class Http1Decoder implements ProtocolDecoder {
  readonly #sink: RequestSink;
  readonly #role: TrafficRole;
  readonly #isCapturing: () => boolean;
  readonly #template: (target: string, isCut?: boolean) => string;
  readonly #maxOpen: number;
  readonly #requests: MessageReader;
  readonly #responses: MessageReader;
  readonly #open: Exchange[] = [];
  /** The current response is 100 or 103, or belongs to a request that was not seen. */
  #isAside = false;

  constructor(context: DecoderContext, options: Http1Options) {
    this.#sink = context.sink;
    this.#role = context.role;
    this.#isCapturing = context.isCapturing ?? (() => false);
    this.#template = options.template ?? createRouteTemplater(256);
    this.#maxOpen = options.maxOpen ?? 1024;
    this.#requests = new MessageReader(this.#requestEvents());
    this.#responses = new MessageReader(this.#responseEvents());
  }

  onRequestBytes(chunk: Chunk): void {
    this.#requests.push(chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    this.#responses.push(chunk);
  }

  /** Responses cannot be attributed to requests until all requests have one. */
  onMissed(): void {
    this.#requests.lose();
    this.#responses.lose();
    this.#isAside = false;
    const open = this.#open.splice(0).length;
    if (open > 0) this.#sink.undecoded(open);
  }

  onIdle(): void {
    this.#endOpenEnded();
  }

  onClose(atNs: number | null): void {
    for (const exchange of this.#open.splice(0)) {
      if (!exchange.hasResponse && atNs === null) {
        this.#sink.undecoded(1);
        continue;
      }
      if (!exchange.hasResponse) exchange.lastByteNs = Math.max(exchange.lastByteNs, atNs ?? 0);
      this.#emit(exchange);
    }
  }

  #requestEvents(): MessageEvents {
    return {
      isStart: (start) => requestStart.test(start) || partOfRequestStart.test(start),
      onHead: (bytes, isWhole, chunk) => this.#onRequestHead(bytes, isWhole, chunk),
      onBytes: (count) => {
        const newest = this.#open.at(-1);
        if (newest !== undefined) newest.requestBytes += count;
      },
      onBody: (bytes) => keepBody(this.#open.at(-1), "requestBody", bytes),
      onEnd: () => {},
      onGarbage: () => this.#sink.undecoded(1),
    };
  }

  #responseEvents(): MessageEvents {
    return {
      isStart: (start) => start.startsWith(responseStart.slice(0, start.length)) && start !== "",
      onHead: (bytes, isWhole, chunk) => this.#onResponseHead(bytes, isWhole, chunk),
      onBytes: (count, { atNs }) => {
        const [oldest] = this.#open;
        if (oldest === undefined || this.#isAside || !oldest.hasResponse) return;
        oldest.responseBytes += count;
        oldest.lastByteNs = Math.max(oldest.lastByteNs, atNs);
      },
      onBody: (bytes) => {
        if (!this.#isAside) keepBody(this.#open[0], "responseBody", bytes);
      },
      onEnd: () => {
        if (!this.#isAside && this.#open[0]?.hasResponse === true) this.#endOldest();
        this.#isAside = false;
      },
      onGarbage: () => {},
    };
  }

  #onRequestHead(bytes: Buffer, isWhole: boolean, chunk: Chunk): BodyEnd {
    const head = parseRequestHead(bytes);
    if (head === null) {
      this.#sink.undecoded(1);
      return { by: "unknown" };
    }
    this.#endOpenEnded();
    if (this.#open.length >= this.#maxOpen) {
      this.#open.shift();
      this.#sink.undecoded(1);
    }
    const isEarlier = chunk.startNs > 0 && chunk.startNs < chunk.atNs;
    const startNs = isEarlier ? chunk.startNs : chunk.atNs;
    this.#open.push({
      method: head.method,
      route: this.#template(head.target, head.isTargetCut),
      host: head.host,
      status: 0,
      hasResponse: false,
      startNs,
      queueNs: isEarlier && this.#role === "server" ? chunk.atNs - chunk.startNs : null,
      firstByteNs: -1,
      lastByteNs: startNs,
      requestBytes: 0,
      responseBytes: 0,
      detail: this.#isCapturing()
        ? { target: head.target, requestHeaders: head.headers, responseHeaders: [], requestBody: null, responseBody: null }
        : null,
    });
    if (!isWhole) return { by: "unknown" };
    return bodyByHeaders(head.headers) ?? { by: "none" };
  }

  #onResponseHead(bytes: Buffer, isWhole: boolean, chunk: Chunk): BodyEnd {
    const head = parseResponseHead(bytes);
    const [oldest] = this.#open;
    this.#isAside = false;
    if (head === null) return { by: "unknown" };
    if (oldest === undefined) this.#isAside = true;
    else {
      if (oldest.firstByteNs < 0) oldest.firstByteNs = Math.max(chunk.atNs, oldest.startNs);
      oldest.lastByteNs = Math.max(oldest.lastByteNs, chunk.atNs);
      if (head.status < 200 && head.status !== 101) {
        this.#isAside = true;
        return { by: "none" };
      }
      oldest.status = head.status;
      oldest.hasResponse = true;
      if (oldest.detail !== null) oldest.detail.responseHeaders = head.headers;
    }
    if (!isWhole) return { by: "unknown" };
    return this.#bodyOfResponse(head, oldest?.method ?? "GET");
  }

  #bodyOfResponse(head: ResponseHead, method: string): BodyEnd {
    if (head.status === 101 || (method === "CONNECT" && head.status < 300)) {
      this.#requests.tunnel();
      if (!this.#isAside) this.#endOldest();
      return { by: "tunnel" };
    }
    if (method === "HEAD" || head.status === 204 || head.status === 304) return { by: "none" };
    return bodyByHeaders(head.headers) ?? { by: "close" };
  }

  /** The next request ends a response whose end is not explicit or was not seen. */
  #endOpenEnded(): void {
    if (this.#responses.isOpenEnded && this.#open[0]?.hasResponse === true) this.#endOldest();
  }

  #endOldest(): void {
    const oldest = this.#open.shift();
    if (oldest !== undefined) this.#emit(oldest);
  }

  #emit(exchange: Exchange): void {
    const { hasResponse, status, startNs, firstByteNs, lastByteNs } = exchange;
    const request: FinishedRequest = {
      method: methodName(exchange.method),
      route: exchange.route,
      status: hasResponse ? String(status) : "no-reply",
      isError: !hasResponse || isHttpError(status, this.#role),
      durationNs: Math.max(0, lastByteNs - startNs),
      queueNs: exchange.queueNs,
      firstByteNs: firstByteNs < 0 ? null : firstByteNs - startNs,
      endNs: lastByteNs,
      requestBytes: exchange.requestBytes,
      responseBytes: exchange.responseBytes,
      host: exchange.host,
    };
    this.#sink.finished(exchange.detail === null ? request : { ...request, detail: exchange.detail });
  }
}

/** Null without a length header. */
function bodyByHeaders(headers: readonly [string, string][]): BodyEnd | null {
  if (/\bchunked\b/i.test(headerOf(headers, "transfer-encoding") ?? "")) return { by: "chunks" };
  const length = headerOf(headers, "content-length");
  return length !== undefined && /^\d{1,15}$/.test(length) ? { by: "length", lengthBytes: Number(length) } : null;
}

function keepBody(exchange: Exchange | undefined, which: "requestBody" | "responseBody", bytes: Buffer): void {
  const detail = exchange?.detail;
  if (detail === undefined || detail === null || bytes.length === 0) return;
  const kept = detail[which];
  const room = maxBodyBytes - (kept?.length ?? 0);
  if (room > 0) detail[which] = Buffer.concat([kept ?? Buffer.alloc(0), bytes.subarray(0, room)]);
}

export function createHttp1Decoder(context: DecoderContext, options: Http1Options = {}): ProtocolDecoder {
  return new Http1Decoder(context, options);
}
