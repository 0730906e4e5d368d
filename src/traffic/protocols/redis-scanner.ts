/** Cuts one direction of a Redis connection (RESP2, RESP3, inline commands) into values, payload by payload, without keeping their contents. */

import type { Chunk } from "../protocol-decoder.ts";

/** A whole value. */
export interface RedisValue {
  /** Its first byte: `*`, `+`, `-`, `$`, …; 0 for an inline command. */
  type: number;
  /** The line of a simple value or an inline command, at most `maxTextBytes`; for arrays their first text, for a blob error its text. */
  first: string;
  /** The second text of an array; empty unless there is one. */
  second: string;
  /** Of the payload with the value's first byte. */
  atNs: number;
  startNs: number;
  lengthBytes: number;
}

const maxDepth = 16;
const maxTextBytes = 64;
/** No line of the protocol itself is longer; an inline command is given up. */
const maxLineBytes = 65_536;
const maxElements = 1 << 24;
const maxBulkBytes = 2 ** 32;

export class RedisScanner {
  readonly #onValue: (value: RedisValue, chunk: Chunk) => void;
  readonly #onLost: (chunk: Chunk) => void;
  readonly #value: RedisValue = { type: 0, first: "", second: "", atNs: 0, startNs: 0, lengthBytes: 0 };
  /** Elements left of each open aggregate, outermost first. */
  readonly #left: number[] = [];
  #line = "";
  #lineBytes = 0;
  /** Bytes of a bulk string and its line end that are still to come. */
  #bulkLeft = 0;
  #bulkText = "";
  #isBulkTextWanted = false;
  #texts = 0;
  #isInValue = false;

  constructor(onValue: (value: RedisValue, chunk: Chunk) => void, onLost: (chunk: Chunk) => void) {
    this.#onValue = onValue;
    this.#onLost = onLost;
  }

  reset(): void {
    this.#left.length = 0;
    this.#line = "";
    this.#lineBytes = 0;
    this.#bulkLeft = 0;
    this.#isInValue = false;
  }

  push(chunk: Chunk): void {
    const { bytes } = chunk;
    let at = 0;
    while (at < bytes.length) {
      if (!this.#isInValue) this.#beginValue(chunk);
      const from = at;
      at = this.#bulkLeft > 0 ? this.#bulk(bytes, at) : this.#readLine(bytes, at);
      this.#value.lengthBytes += at - from;
      if (this.#bulkLeft > 0 || this.#lineBytes > 0) continue;
      if (!this.#settle(chunk)) return;
    }
    this.#skip(chunk.fullLength - bytes.length, chunk);
  }

  #skip(missingBytes: number, chunk: Chunk): void {
    if (missingBytes <= 0) return;
    if (this.#bulkLeft < missingBytes) {
      this.reset();
      this.#onLost(chunk);
      return;
    }
    this.#bulkLeft -= missingBytes;
    this.#value.lengthBytes += missingBytes;
    if (this.#bulkLeft === 0) {
      this.#endBulk();
      this.#settle(chunk);
    }
  }

  #beginValue(chunk: Chunk): void {
    this.#isInValue = true;
    this.#texts = 0;
    const value = this.#value;
    value.type = 0;
    value.first = "";
    value.second = "";
    value.lengthBytes = 0;
    value.atNs = chunk.atNs;
    value.startNs = chunk.startNs;
  }

  #bulk(bytes: Buffer, at: number): number {
    const to = Math.min(bytes.length, at + this.#bulkLeft);
    if (this.#isBulkTextWanted && this.#bulkText.length < maxTextBytes) {
      // The last two bytes are the line end.
      const textTo = Math.min(to, at + Math.max(0, this.#bulkLeft - 2), at + maxTextBytes - this.#bulkText.length);
      if (textTo > at) this.#bulkText += bytes.toString("latin1", at, textTo);
    }
    this.#bulkLeft -= to - at;
    if (this.#bulkLeft === 0) this.#endBulk();
    return to;
  }

  #endBulk(): void {
    if (this.#isBulkTextWanted) this.#addText(this.#bulkText);
    this.#left.length === 0 || this.#countElement();
  }

  #addText(text: string): void {
    if (this.#texts === 0) this.#value.first = text;
    else if (this.#texts === 1) this.#value.second = text;
    this.#texts++;
  }

  /** Up to the line end, or as far as there are bytes; `#lineBytes` is 0 when the line was complete and dealt with. */
  #readLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(10, at);
    const to = end < 0 ? bytes.length : end;
    if (this.#line.length < maxTextBytes) this.#line += bytes.toString("latin1", at, Math.min(to, at + maxTextBytes - this.#line.length));
    this.#lineBytes += to - at;
    if (end < 0) {
      if (this.#lineBytes > maxLineBytes) this.#lineBytes = -1;
      return to;
    }
    const line = this.#line.endsWith("\r") ? this.#line.slice(0, -1) : this.#line;
    this.#line = "";
    this.#lineBytes = this.#onLine(line) ? 0 : -1;
    return end + 1;
  }

  /** False: this is not the protocol. */
  #onLine(line: string): boolean {
    const type = line.charCodeAt(0);
    const isTop = this.#left.length === 0;
    if (isTop) this.#value.type = type;
    switch (type) {
      case 0x2a: // *
      case 0x7e: // ~
      case 0x3e: // >
        return this.#beginAggregate(line, 1);
      case 0x25: // %
      case 0x7c: // |
        return this.#beginAggregate(line, 2);
      case 0x24: // $
      case 0x3d: // =
      case 0x21: // !
        return this.#beginBulk(line);
      case 0x2b: // +
      case 0x2d: // -
      case 0x3a: // :
      case 0x5f: // _
      case 0x23: // #
      case 0x2c: // ,
      case 0x28: // (
        if (isTop || this.#texts < 2) this.#addText(line.slice(1));
        this.#countElement();
        return true;
      default:
        if (!isTop) return false;
        this.#value.type = 0;
        this.#value.first = line;
        return true;
    }
  }

  #beginAggregate(line: string, perElement: number): boolean {
    const count = numberOf(line);
    if (count === null || count > maxElements || this.#left.length >= maxDepth) return false;
    if (count <= 0) this.#countElement();
    else this.#left.push(count * perElement);
    return true;
  }

  #beginBulk(line: string): boolean {
    const length = numberOf(line);
    if (length === null || length > maxBulkBytes) return false;
    if (length < 0) {
      this.#countElement();
      return true;
    }
    this.#bulkLeft = length + 2;
    this.#isBulkTextWanted = this.#texts < 2;
    this.#bulkText = "";
    return true;
  }

  /** An element is complete, and with it perhaps the aggregates around it. */
  #countElement(): void {
    while (this.#left.length > 0) {
      const last = this.#left.length - 1;
      const left = (this.#left[last] ?? 1) - 1;
      if (left > 0) {
        this.#left[last] = left;
        return;
      }
      this.#left.pop();
    }
  }

  /** After a line or a bulk string. False when the stream is lost. */
  #settle(chunk: Chunk): boolean {
    if (this.#lineBytes < 0) {
      this.reset();
      this.#onLost(chunk);
      return false;
    }
    if (this.#left.length > 0 || this.#bulkLeft > 0) return true;
    this.#isInValue = false;
    this.#onValue(this.#value, chunk);
    return true;
  }
}

/** Of `*12`. Null when it is no number. */
function numberOf(line: string): number | null {
  const text = line.slice(1);
  return /^-?\d{1,10}$/.test(text) ? Number(text) : null;
}
