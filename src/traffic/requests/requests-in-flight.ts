/** The open requests of one connection, in the order they were sent. Decoders use it to pair them with replies and to time them. Bounded. */

import type { DecoderContext, RequestSink } from "../core/protocol-decoder.ts";
import { unknownRoute } from "./route-template.ts";

export interface OpenRequest {
  method: string;
  route: string;
  status: string;
  isError: boolean;
  /** Correlation id, where the protocol has one. */
  id: number;
  /** Arrival at the server or start of the client's send, if known; else when it was read or written. */
  startNs: number;
  queueNs: number | null;
  /** -1 until the first byte of the reply. */
  firstByteNs: number;
  lastByteNs: number;
  requestBytes: number;
  responseBytes: number;
  /** Stands for an unknown number of requests whose bytes were not seen. */
  isHole: boolean;
  /** Records were lost that may have held its reply. */
  isReplyUncertain: boolean;
  /** For the decoder's own use, such as how the reply ends. */
  state: number;
}

/** When the first byte of a request was read or written, and when it arrived or its send started; a `Chunk` and a frame have both. */
export interface RequestStart {
  atNs: number;
  startNs: number;
}

export const noReply = "no-reply";

export class RequestsInFlight {
  readonly #sink: RequestSink;
  readonly #isServer: boolean;
  readonly #max: number;
  #open: OpenRequest[] = [];

  /** Holds up to `max` requests, 1024 by default; above that the oldest is dropped and counted as undecoded. */
  constructor(context: DecoderContext, max = 1024) {
    this.#sink = context.sink;
    this.#isServer = context.role === "server";
    this.#max = max;
  }

  get size(): number {
    return this.#open.length;
  }

  get oldest(): OpenRequest | undefined {
    return this.#open[0];
  }

  get newest(): OpenRequest | undefined {
    return this.#open[this.#open.length - 1];
  }

  begin(start: RequestStart, method: string, route: string, requestBytes: number, id = 0): OpenRequest {
    const isStartKnown = start.startNs > 0 && start.startNs < start.atNs;
    const request: OpenRequest = {
      method,
      route,
      status: "",
      isError: false,
      id,
      startNs: isStartKnown ? start.startNs : start.atNs,
      queueNs: isStartKnown && this.#isServer ? start.atNs - start.startNs : null,
      firstByteNs: -1,
      lastByteNs: start.atNs,
      requestBytes,
      responseBytes: 0,
      isHole: false,
      isReplyUncertain: false,
      state: 0,
    };
    if (this.#open.length >= this.#max) {
      this.#open.shift();
      this.#sink.undecoded(1);
    }
    this.#open.push(request);
    return request;
  }

  /** Bytes of an unknown number of requests were sent but not seen. */
  beginHole(start: RequestStart): void {
    if (this.newest?.isHole === true) return;
    this.begin(start, "", unknownRoute, 0).isHole = true;
  }

  byId(id: number): OpenRequest | undefined {
    const { oldest } = this;
    return oldest?.id === id ? oldest : this.#open.find((request) => request.id === id);
  }

  find(isWanted: (request: OpenRequest) => boolean): OpenRequest | undefined {
    return this.#open.find(isWanted);
  }

  /** A part of the reply passed; if it spans several payloads, `lastAtNs` is the time of the last. */
  responded(request: OpenRequest, responseBytes: number, atNs: number, lastAtNs = atNs): void {
    if (request.firstByteNs < 0) request.firstByteNs = Math.max(atNs, request.startNs);
    request.lastByteNs = Math.max(lastAtNs, request.lastByteNs);
    request.responseBytes += responseBytes;
  }

  /** Replies passed that cannot be attributed to single requests: each gets an equal share of their bytes. */
  respondedAll(atNs: number, bytes = 0): void {
    const open = this.#open.filter(({ isHole }) => !isHole);
    const share = Math.floor(bytes / Math.max(1, open.length));
    for (const [index, request] of open.entries()) {
      this.responded(request, index === 0 ? bytes - share * (open.length - 1) : share, atNs);
    }
  }

  /** Emits the request and removes it. */
  end(request: OpenRequest): void {
    this.forget(request);
    if (request.isHole) return;
    this.#sink.finished({
      method: request.method,
      route: request.route,
      status: request.status,
      isError: request.isError,
      durationNs: Math.max(0, request.lastByteNs - request.startNs),
      queueNs: request.queueNs,
      firstByteNs: request.firstByteNs < 0 ? null : request.firstByteNs - request.startNs,
      endNs: request.lastByteNs,
      requestBytes: request.requestBytes,
      responseBytes: request.responseBytes,
    });
  }

  /** Removes the request without emitting it. */
  forget(request: OpenRequest): void {
    if (this.#open[0] === request) this.#open.shift();
    else {
      const index = this.#open.indexOf(request);
      if (index >= 0) this.#open.splice(index, 1);
    }
  }

  /** Ends all requests whose reply has started, for protocols whose replies have no explicit end. */
  endResponded(): void {
    const open = this.#open;
    this.#open = open.filter((request) => request.firstByteNs < 0);
    for (const request of open) if (request.firstByteNs >= 0) this.end(request);
  }

  /** Open requests cannot be paired any more: counts them as undecoded. */
  giveUp(): void {
    const count = this.#open.reduce((sum, request) => sum + (request.isHole ? 0 : 1), 0);
    this.#open = [];
    if (count > 0) this.#sink.undecoded(count);
  }

  /** Replies were lost, to any of the open requests. */
  markRepliesLost(): void {
    for (const request of this.#open) request.isReplyUncertain = true;
  }

  giveUpUncertain(): void {
    const open = this.#open;
    this.#open = open.filter((request) => !request.isReplyUncertain);
    const count = open.length - this.#open.length;
    if (count > 0) this.#sink.undecoded(count);
  }

  /** The connection ended: open requests get no reply, unless replies were lost. Null: it was evicted, and its end is unknown. */
  close(atNs: number | null): void {
    this.endResponded();
    this.giveUpUncertain();
    // After a hole, replies cannot be attributed to requests.
    if (atNs === null || this.#open.some(({ isHole }) => isHole)) {
      this.giveUp();
      return;
    }
    const open = this.#open;
    this.#open = [];
    for (const request of open) {
      request.status = noReply;
      request.isError = true;
      request.lastByteNs = Math.max(atNs, request.lastByteNs);
      this.end(request);
    }
  }
}
