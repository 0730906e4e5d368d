/**
 * The requests of one connection that have no full answer yet, in the order in which they were asked. Bounded; decoders use it to pair and to time.
 */

import type { DecoderContext, RequestSink } from "../core/protocol-decoder.ts";
import { unknownRoute } from "./route-template.ts";

export interface OpenRequest {
  method: string;
  route: string;
  status: string;
  isError: boolean;
  /** Correlation id, where the protocol has one. */
  id: number;
  /** Arrival at the server or the begin of the client's send, if known; else when it was read or written. */
  startNs: number;
  queueNs: number | null;
  /** -1 while nothing was answered. */
  firstByteNs: number;
  lastByteNs: number;
  requestBytes: number;
  responseBytes: number;
  /** Not one request but an unknown number of them, whose bytes were not seen. */
  isHole: boolean;
  /** Its answer may have been lost on its way here. */
  isDoubtful: boolean;
  /** Left to the decoder: what it has to remember about the answer. */
  state: number;
}

/** When the first byte of a request was read or written, and when it arrived or its send began; a `Chunk` and a frame have both. */
export interface AskedAt {
  atNs: number;
  startNs: number;
}

export const noReply = "no-reply";

export class RequestsInFlight {
  readonly #sink: RequestSink;
  readonly #isServer: boolean;
  readonly #max: number;
  #open: OpenRequest[] = [];

  /** `max` requests are remembered, 1024 by default; above that the oldest is given up and counted. */
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

  begin(asked: AskedAt, method: string, route: string, requestBytes: number, id = 0): OpenRequest {
    const isStartKnown = asked.startNs > 0 && asked.startNs < asked.atNs;
    const request: OpenRequest = {
      method,
      route,
      status: "",
      isError: false,
      id,
      startNs: isStartKnown ? asked.startNs : asked.atNs,
      queueNs: isStartKnown && this.#isServer ? asked.atNs - asked.startNs : null,
      firstByteNs: -1,
      lastByteNs: asked.atNs,
      requestBytes,
      responseBytes: 0,
      isHole: false,
      isDoubtful: false,
      state: 0,
    };
    if (this.#open.length >= this.#max) {
      this.#open.shift();
      this.#sink.undecoded(1);
    }
    this.#open.push(request);
    return request;
  }

  /** Bytes were asked that nobody saw: any number of requests. */
  beginHole(asked: AskedAt): void {
    if (this.newest?.isHole === true) return;
    this.begin(asked, "", unknownRoute, 0).isHole = true;
  }

  byId(id: number): OpenRequest | undefined {
    const { oldest } = this;
    return oldest?.id === id ? oldest : this.#open.find((request) => request.id === id);
  }

  find(isWanted: (request: OpenRequest) => boolean): OpenRequest | undefined {
    return this.#open.find(isWanted);
  }

  /** A part of the answer passed; for a part in several payloads `lastAtNs` is the time of the last. */
  answered(request: OpenRequest, responseBytes: number, atNs: number, lastAtNs = atNs): void {
    if (request.firstByteNs < 0) request.firstByteNs = Math.max(atNs, request.startNs);
    request.lastByteNs = Math.max(lastAtNs, request.lastByteNs);
    request.responseBytes += responseBytes;
  }

  /** Answers passed that cannot be told apart. */
  answerAll(atNs: number): void {
    for (const request of this.#open) if (!request.isHole) this.answered(request, 0, atNs);
  }

  /** Tells the request and forgets it. */
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

  /** Nothing is told about it. */
  forget(request: OpenRequest): void {
    if (this.#open[0] === request) this.#open.shift();
    else {
      const index = this.#open.indexOf(request);
      if (index >= 0) this.#open.splice(index, 1);
    }
  }

  /** Ends what has begun to be answered, for protocols whose answers have no marked end. */
  endAnswered(): void {
    const open = this.#open;
    this.#open = open.filter((request) => request.firstByteNs < 0);
    for (const request of open) if (request.firstByteNs >= 0) this.end(request);
  }

  /** What is open cannot be paired any more: it is counted as undecoded. */
  giveUp(): void {
    const count = this.#open.reduce((sum, request) => sum + (request.isHole ? 0 : 1), 0);
    this.#open = [];
    if (count > 0) this.#sink.undecoded(count);
  }

  /** Answers were lost: nobody knows whose. */
  doubt(): void {
    for (const request of this.#open) request.isDoubtful = true;
  }

  giveUpDoubtful(): void {
    const open = this.#open;
    this.#open = open.filter((request) => !request.isDoubtful);
    const count = open.length - this.#open.length;
    if (count > 0) this.#sink.undecoded(count);
  }

  /** The connection is over: what was not answered never will be, unless answers were lost. Null: it was only forgotten. */
  close(atNs: number | null): void {
    this.endAnswered();
    this.giveUpDoubtful();
    // Behind a hole it is not known which request an answer was for.
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
