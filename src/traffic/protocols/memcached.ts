/** memcached: picks the text or the binary decoder by the first bytes. */

import type { Chunk, DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { createMemcachedBinaryDecoder, memcachedReplyMagic, memcachedRequestMagic } from "./memcached-binary.ts";
import { createMemcachedTextDecoder } from "./memcached-text.ts";

class MemcachedDecoder implements ProtocolDecoder {
  readonly #context: DecoderContext;
  #decoder: ProtocolDecoder | null = null;

  constructor(context: DecoderContext) {
    this.#context = context;
  }

  onRequestBytes(chunk: Chunk): void {
    this.#decoderFor(chunk, memcachedRequestMagic)?.onRequestBytes(chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    this.#decoderFor(chunk, memcachedReplyMagic)?.onReplyBytes(chunk);
  }

  onMissed(what: "requests" | "replies", atNs: number): void {
    this.#decoder?.onMissed(what, atNs);
  }

  onIdle(): void {
    this.#decoder?.onIdle();
  }

  onClose(atNs: number | null): void {
    this.#decoder?.onClose(atNs);
  }

  #decoderFor(chunk: Chunk, magic: number): ProtocolDecoder | null {
    if (this.#decoder !== null) return this.#decoder;
    const first = chunk.bytes[0] ?? 0;
    if (first === magic) this.#decoder = createMemcachedBinaryDecoder(this.#context);
    else if (first >= 0x20 && first < 0x7f) this.#decoder = createMemcachedTextDecoder(this.#context);
    else this.#context.sink.undecoded(1);
    return this.#decoder;
  }
}

export function createMemcachedDecoder(context: DecoderContext): ProtocolDecoder {
  return new MemcachedDecoder(context);
}
