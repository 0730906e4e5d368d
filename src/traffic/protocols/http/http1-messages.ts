/**
 * Splits one direction of an HTTP/1 connection into messages: heads, and bodies by length, in chunks or up to the end of the connection. Payloads may
 * be truncated; if the end of a message is then unknown, the next payload that looks like a head starts over.
 */

import type { Chunk } from "../../core/protocol-decoder.ts";

/** How a body ends. `tunnel`: another protocol follows; `unknown`: with the next message. */
export type BodyEnd = { by: "none" | "chunks" | "close" | "tunnel" | "unknown" } | { by: "length"; lengthBytes: number };

export interface MessageEvents {
  /** Whether a head may start with these bytes. */
  isStart(start: string): boolean;
  /** A head, valid during the call; not `isWhole` if its end was not captured. */
  onHead(bytes: Buffer, isWhole: boolean, chunk: Chunk): BodyEnd;
  /** Bytes of the current message have passed, including those of its head. */
  onBytes(count: number, chunk: Chunk): void;
  /** Content without chunk framing; as much as was captured. */
  onBody(bytes: Buffer): void;
  onEnd(chunk: Chunk): void;
  /** The bytes at the position of a head are not one. */
  onGarbage(): void;
}

type Mode = "head" | "length" | "chunk-size" | "chunk" | "chunk-end" | "trailers" | "close" | "tunnel" | "lost";

const maxHeadBytes = 16_384;
/** Longest chunk-size line with extensions. */
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

  /** The end of the current message will not be seen. */
  get isOpenEnded(): boolean {
    return this.#mode === "lost" || this.#mode === "close";
  }

  /** Another protocol follows. */
  tunnel(): void {
    this.#mode = "tunnel";
    this.#held = null;
  }

  /** Payloads were lost: start over at the next head. */
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

  /** Returns the new offset, at least one byte further. */
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
      // The bytes are valid only during the call.
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

  /** Lines between chunks, and trailers. */
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

  /** Skips bytes that were not captured. */
  #skip(missingBytes: number, chunk: Chunk): void {
    if (this.#mode === "head" && this.#held !== null) {
      const held = this.#held;
      this.#held = null;
      this.#begin(this.#events.onHead(held, false, chunk), held.length, chunk);
    }
    if (this.#mode === "tunnel") return;
    if (this.#mode === "length" || this.#mode === "chunk") {
      // The line end after a chunk is often part of the same write.
      const lineEnd = this.#mode === "chunk" && missingBytes === this.#leftBytes + 2 ? 2 : 0;
      const size = Math.min(this.#leftBytes, missingBytes);
      this.#leftBytes -= size;
      this.#events.onBytes(size + lineEnd, chunk);
      const isChunk = this.#mode === "chunk";
      if (this.#leftBytes === 0) this.#endPart(chunk);
      if (lineEnd > 0) this.#mode = "chunk-size";
      const restBytes = missingBytes - size - lineEnd;
      if (restBytes === 0) return;
      // After a body of known length the message has ended, and the rest belongs to the next ones.
      if (isChunk) this.#events.onBytes(restBytes, chunk);
      this.#lose();
      return;
    }
    this.#events.onBytes(missingBytes, chunk);
    if (this.#mode !== "close") this.#lose();
  }
}

/** Offset after the empty line that ends a head; -1 without one. */
function headEnd(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(lf, from); at >= 0; at = bytes.indexOf(lf, at + 1)) {
    if (bytes[at + 1] === lf) return at + 2;
    if (bytes[at + 1] === 13 && bytes[at + 2] === lf) return at + 3;
  }
  return -1;
}
