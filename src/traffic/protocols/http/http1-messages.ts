/**
 * Cuts one direction of an HTTP/1 connection into messages: heads, and bodies by length, in chunks or up to the end of the connection. Payloads may
 * come cut short; where a message then ends is not always known, and the next payload that looks like a head begins anew.
 */

import type { Chunk } from "../../core/protocol-decoder.ts";

/** How the end of a body is known. `tunnel`: what follows is another protocol; `unknown`: by the next message only. */
export type BodyEnd = { by: "none" | "chunks" | "close" | "tunnel" | "unknown" } | { by: "length"; lengthBytes: number };

export interface MessageEvents {
  /** Whether these bytes may begin a head. */
  isStart(start: string): boolean;
  /** A head, lent for the call; not `isWhole` when its end was not captured. */
  onHead(bytes: Buffer, isWhole: boolean, chunk: Chunk): BodyEnd;
  /** So many bytes of the message under way have passed, those of the head among them. */
  onBytes(count: number, chunk: Chunk): void;
  /** Content, without the marks of chunks; as much as was captured. */
  onBody(bytes: Buffer): void;
  onEnd(chunk: Chunk): void;
  /** Bytes where a head should be are none. */
  onGarbage(): void;
}

type Mode = "head" | "length" | "chunk-size" | "chunk" | "chunk-end" | "trailers" | "close" | "tunnel" | "lost";

const maxHeadBytes = 16_384;
/** Longest line with the size of a chunk, extensions included. */
const maxLineBytes = 1024;
const lf = 10;

export class MessageReader {
  readonly #events: MessageEvents;
  #mode: Mode = "head";
  #held: Buffer | null = null;
  #leftBytes = 0;

  constructor(events: MessageEvents) {
    this.#events = events;
  }

  /** The end of the message under way will not be seen. */
  get isOpenEnded(): boolean {
    return this.#mode === "lost" || this.#mode === "close";
  }

  /** From here on another protocol. */
  tunnel(): void {
    this.#mode = "tunnel";
    this.#held = null;
  }

  /** Payloads were lost: the next head begins anew. */
  lose(): void {
    if (this.#mode !== "tunnel") this.#lose();
  }

  push(chunk: Chunk): void {
    const { bytes } = chunk;
    if ((this.#mode === "lost" || this.#mode === "close") && this.#isStart(bytes, 0)) this.#mode = "head";
    let at = 0;
    while (at < bytes.length) at = this.#step(chunk, bytes, at);
    const missingBytes = chunk.fullLength - bytes.length;
    if (missingBytes > 0) this.#skip(missingBytes, chunk);
  }

  #isStart(bytes: Buffer, at: number): boolean {
    return this.#events.isStart(bytes.toString("latin1", at, Math.min(bytes.length, at + 32)));
  }

  /** Returns how far it came, at least one byte. */
  #step(chunk: Chunk, bytes: Buffer, at: number): number {
    switch (this.#mode) {
      case "head":
        return this.#readHead(chunk, bytes, at);
      case "length":
      case "chunk":
        return this.#readBody(chunk, bytes, at);
      case "chunk-size":
      case "chunk-end":
      case "trailers":
        return this.#readLine(chunk, bytes, at);
      case "close":
        this.#events.onBody(bytes.subarray(at));
        this.#events.onBytes(bytes.length - at, chunk);
        return bytes.length;
      case "tunnel":
        return bytes.length;
      case "lost":
        this.#events.onBytes(bytes.length - at, chunk);
        return bytes.length;
    }
  }

  #readHead(chunk: Chunk, bytes: Buffer, from: number): number {
    let at = from;
    if (this.#held === null) {
      while (at < bytes.length && (bytes[at] === 13 || bytes[at] === lf)) at++;
      if (at === bytes.length) return at;
      if (!this.#isStart(bytes, at)) {
        this.#mode = "lost";
        this.#events.onGarbage();
        return at;
      }
    }
    const held = this.#held;
    const all = held === null ? bytes.subarray(at) : Buffer.concat([held, bytes.subarray(at)]);
    const end = headEnd(all, Math.max(0, (held?.length ?? 0) - 3));
    if (end < 0 && all.length < maxHeadBytes) {
      // Bytes are lent for the call.
      this.#held = held === null ? Buffer.from(all) : all;
      return bytes.length;
    }
    this.#held = null;
    const headBytes = end < 0 ? all.length : end;
    this.#begin(this.#events.onHead(all.subarray(0, headBytes), end >= 0, chunk), headBytes, chunk);
    return at + headBytes - (held?.length ?? 0);
  }

  #begin(body: BodyEnd, headBytes: number, chunk: Chunk): void {
    this.#events.onBytes(headBytes, chunk);
    switch (body.by) {
      case "length":
        this.#mode = "length";
        this.#leftBytes = body.lengthBytes;
        if (body.lengthBytes === 0) this.#end(chunk);
        break;
      case "chunks":
        this.#mode = "chunk-size";
        break;
      case "close":
      case "tunnel":
        this.#mode = body.by;
        break;
      case "unknown":
        this.#mode = "lost";
        break;
      case "none":
        this.#end(chunk);
        break;
    }
  }

  #readBody(chunk: Chunk, bytes: Buffer, at: number): number {
    const size = Math.min(this.#leftBytes, bytes.length - at);
    this.#events.onBody(bytes.subarray(at, at + size));
    this.#events.onBytes(size, chunk);
    this.#leftBytes -= size;
    if (this.#leftBytes === 0) this.#endPart(chunk);
    return at + size;
  }

  #endPart(chunk: Chunk): void {
    if (this.#mode === "chunk") this.#mode = "chunk-end";
    else this.#end(chunk);
  }

  #end(chunk: Chunk): void {
    this.#mode = "head";
    this.#held = null;
    this.#events.onEnd(chunk);
  }

  /** Lines between chunks, and those that end them. */
  #readLine(chunk: Chunk, bytes: Buffer, at: number): number {
    const end = bytes.indexOf(lf, at);
    const stop = end < 0 ? bytes.length : end + 1;
    const piece = bytes.subarray(at, stop);
    const line = this.#held === null ? piece : Buffer.concat([this.#held, piece]);
    this.#events.onBytes(stop - at, chunk);
    if (end < 0) {
      this.#held = Buffer.from(line);
      if (line.length > maxLineBytes) this.#lose();
      return stop;
    }
    this.#held = null;
    this.#endLine(line.toString("latin1").trim(), chunk);
    return stop;
  }

  #endLine(line: string, chunk: Chunk): void {
    if (this.#mode === "chunk-end") this.#mode = "chunk-size";
    else if (this.#mode === "trailers") {
      if (line === "") this.#end(chunk);
    } else if (/^[0-9a-f]{1,8}(?:\s*;.*)?$/i.test(line)) {
      this.#leftBytes = Number.parseInt(line, 16);
      this.#mode = this.#leftBytes === 0 ? "trailers" : "chunk";
    } else this.#lose();
  }

  #lose(): void {
    this.#mode = "lost";
    this.#held = null;
  }

  /** Bytes that were not captured. */
  #skip(missingBytes: number, chunk: Chunk): void {
    if (this.#mode === "head" && this.#held !== null) {
      const held = this.#held;
      this.#held = null;
      this.#begin(this.#events.onHead(held, false, chunk), held.length, chunk);
    }
    if (this.#mode === "tunnel") return;
    if (this.#mode === "length" || this.#mode === "chunk") {
      const size = Math.min(this.#leftBytes, missingBytes);
      this.#leftBytes -= size;
      this.#events.onBytes(size, chunk);
      if (this.#leftBytes === 0) this.#endPart(chunk);
      if (size === missingBytes) return;
      this.#lose();
      return;
    }
    this.#events.onBytes(missingBytes, chunk);
    if (this.#mode !== "close") this.#lose();
  }
}

/** Behind the empty line that ends a head; -1 while it is not there. */
function headEnd(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(lf, from); at >= 0; at = bytes.indexOf(lf, at + 1)) {
    if (bytes[at + 1] === lf) return at + 2;
    if (bytes[at + 1] === 13 && bytes[at + 2] === lf) return at + 3;
  }
  return -1;
}
