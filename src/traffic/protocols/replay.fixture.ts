/** Feeds decoders in tests and collects the requests that they emit. */

import type { DecoderFactory, FinishedRequest, ProtocolDecoder, RequestSink } from "../core/protocol-decoder.ts";
import type { RecordedPayload } from "./recorded.fixture.ts";

export class Replay implements RequestSink {
  readonly requests: FinishedRequest[] = [];
  readonly decoder: ProtocolDecoder;
  undecodedCount = 0;
  #atNs = 1_000_000;

  constructor(factory: DecoderFactory, role: "client" | "server" = "client") {
    this.decoder = factory({ sink: this, role });
  }

  finished(request: FinishedRequest): void {
    this.requests.push(request);
  }

  undecoded(count: number): void {
    this.undecodedCount += count;
  }

  /** Each payload is 1 ms after the one before. */
  request(bytes: Buffer | string, lengthBytes?: number): this {
    this.decoder.onRequestBytes(this.#chunk(bytes, lengthBytes));
    return this;
  }

  reply(bytes: Buffer | string, lengthBytes?: number): this {
    this.decoder.onReplyBytes(this.#chunk(bytes, lengthBytes));
    return this;
  }

  /** Payloads are lost at this point. */
  miss(what: "requests" | "replies"): this {
    this.decoder.onMissed(what, this.#atNs);
    return this;
  }

  close(): this {
    this.decoder.onClose(this.#atNs);
    return this;
  }

  play(recording: readonly RecordedPayload[]): this {
    for (const [from, lengthBytes, head] of recording) {
      const bytes = Buffer.from(head, "base64");
      if (from === "client") this.request(bytes, lengthBytes);
      else this.reply(bytes, lengthBytes);
    }
    return this;
  }

  /** `GET GET ` and so on: method, route, status, and `!` for an error. */
  get lines(): string[] {
    return this.requests.map(({ method, route, status, isError }) => `${method} | ${route} | ${status}${isError ? "!" : ""}`);
  }

  #chunk(bytes: Buffer | string, lengthBytes: number | undefined) {
    const buffer = typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes;
    this.#atNs += 1_000_000;
    return { bytes: buffer, fullLength: lengthBytes ?? buffer.length, atNs: this.#atNs, startNs: 0 };
  }
}
