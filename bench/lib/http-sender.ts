/** Sends prepared requests over a few HTTP/1.1 connections, one request in flight each: most of its cost is the kernel's copying. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { SpanRequest } from "./span-requests.ts";

export interface HttpSenderOptions {
  port: number;
  path: string;
  /** Sent round-robin; there must be more of them than connections. */
  requests: readonly SpanRequest[];
  connections: number;
  /** Spans per second; absent: as fast as responses arrive. */
  spansPerSecond?: number;
  /** Number of the first request sent; incremented by one. */
  firstSending: number;
}

/** Outcome of one run: what was acknowledged, and how fast. */
export interface Sent {
  sendings: number;
  spans: number;
  bytes: number;
  /** Responses other than 200. Their spans are not in `spans`. */
  refused: number;
  seconds: number;
}

/** Runs until this many spans were acknowledged. */
export async function sendByHttp(options: HttpSenderOptions, spans: number): Promise<Sent> {
  const run = new Run(options, spans);
  return run.finish();
}

/** Sends until the wanted number of spans is acknowledged. */
class Run {
  readonly #options: HttpSenderOptions;
  readonly #wantedSpans: number;
  readonly #sent: Sent = { sendings: 0, spans: 0, bytes: 0, refused: 0, seconds: 0 };
  /** A ring of requests not in flight: shifting a long array costs more than sending. */
  readonly #free: SpanRequest[];
  #firstFree = 0;
  #underWay = 0;
  readonly #startMs = performance.now();
  /** Requests sent, acknowledged or not. */
  #offeredSpans = 0;

  constructor(options: HttpSenderOptions, wantedSpans: number) {
    this.#options = options;
    this.#wantedSpans = wantedSpans;
    this.#free = [...options.requests];
  }

  async finish(): Promise<Sent> {
    await Promise.all(Array.from({ length: this.#options.connections }, () => this.#connection()));
    return { ...this.#sent, seconds: (performance.now() - this.#startMs) / 1_000 };
  }

  async #connection(): Promise<void> {
    const socket = connect({ port: this.#options.port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    await new Promise<void>((resolve, reject) => {
      const exchange = new Exchange(socket, (status) => {
        this.#answered(exchange.request, status);
        this.#next(exchange, resolve);
      });
      socket.once("error", reject);
      this.#next(exchange, resolve);
    });
    socket.destroy();
  }

  #answered(request: SpanRequest | undefined, status: number): void {
    if (request === undefined) throw new Error("Received a response without a request");
    this.#free[(this.#firstFree + this.#free.length - this.#underWay) % this.#free.length] = request;
    this.#underWay--;
    if (status === 200) this.#sent.spans += request.spans;
    else {
      this.#sent.refused++;
      this.#offeredSpans -= request.spans;
    }
  }

  #next(exchange: Exchange, done: () => void): void {
    const { spansPerSecond } = this.#options;
    if (this.#offeredSpans >= this.#wantedSpans) return done();
    const dueMs = spansPerSecond === undefined ? 0 : this.#startMs + (this.#offeredSpans / spansPerSecond) * 1_000;
    const waitMs = dueMs - performance.now();
    if (waitMs > 1) setTimeout(() => this.#next(exchange, done), waitMs);
    else this.#send(exchange);
  }

  #send(exchange: Exchange): void {
    const request = this.#free[this.#firstFree];
    if (request === undefined || this.#underWay === this.#free.length) throw new Error("There are fewer requests than connections");
    this.#firstFree = (this.#firstFree + 1) % this.#free.length;
    this.#underWay++;
    request.stamp(this.#options.firstSending + this.#sent.sendings, Date.now());
    this.#sent.sendings++;
    this.#sent.bytes += request.body.length;
    this.#offeredSpans += request.spans;
    exchange.send(request, this.#options.path);
  }
}

/** One connection. */
class Exchange {
  readonly #socket: Socket;
  readonly #onAnswer: (status: number) => void;
  #head = "";
  request: SpanRequest | undefined;

  constructor(socket: Socket, onAnswer: (status: number) => void) {
    this.#socket = socket;
    this.#onAnswer = onAnswer;
    socket.on("data", (part: Buffer) => this.#data(part));
  }

  send(request: SpanRequest, path: string): void {
    this.request = request;
    const socket = this.#socket;
    socket.cork();
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-protobuf\r\ncontent-length: ${request.body.length}\r\n\r\n`,
      "latin1",
    );
    socket.write(request.body);
    socket.uncork();
  }

  /** One response arrives at a time, so all buffered bytes belong to it. */
  #data(part: Buffer): void {
    this.#head += part.toString("latin1");
    const end = this.#head.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(this.#head)?.[1] ?? 0);
    if (this.#head.length < end + 4 + length) return;
    const status = Number(this.#head.slice(9, 12));
    this.#head = "";
    this.#onAnswer(status);
  }
}
