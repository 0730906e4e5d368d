/** Splits one direction of a Redis connection (RESP2, RESP3, inline commands) into values, without keeping their contents. */

import type { Chunk } from "../core/protocol-decoder.ts";

/** A complete value. */
export interface RedisValue {
  /** Its first byte: `*`, `+`, `-`, `$`, …; 0 for an inline command. */
  type: number;
  /** The line of an error or inline command, at most `maxTextBytes`; the first string of other values, if needed. */
  first: string;
  /** The second string of an array, if needed. */
  second: string;
  /** Of the payload with the value's first byte. */
  atNs: number;
  startNs: number;
  lengthBytes: number;
}

export interface RedisTexts {
  /** Whether the first string of a value is needed. */
  isFirstWanted(): boolean;
  isSecondWanted(first: string): boolean;
}

const maxDepth = 16;
const maxTextBytes = 64;
/** No line of RESP itself is longer; a longer inline command is skipped. */
const maxLineBytes = 65_536;
const maxElements = 1 << 24;
const maxBulkBytes = 2 ** 32;

export class RedisScanner {
  readonly #onValue: (value: RedisValue, chunk: Chunk) => void;
  /** The rest of a payload is missing, and what follows may start anywhere. `lostBytes`: of no value that was reported. */
  readonly #onLost: (chunk: Chunk, lostBytes: number) => void;
  readonly #wanted: RedisTexts;
  readonly #value: RedisValue = { type: 0, first: "", second: "", atNs: 0, startNs: 0, lengthBytes: 0 };
  /** Elements left of each open aggregate, outermost first. */
  readonly #left: number[] = [];
  #line = "";
  #lineBytes = 0;
  /** Remaining bytes of a bulk string and its line end. */
  #bulkLeft = 0;
  #bulkText = "";
  #isBulkTextWanted = false;
  #texts = 0;
  #isInValue = false;

  constructor(wanted: RedisTexts, onValue: (value: RedisValue, chunk: Chunk) => void, onLost: (chunk: Chunk, lostBytes: number) => void) {
    this.#wanted = wanted;
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
      const lostBytes = missingBytes - this.#endWithinLoss(chunk);
      this.reset();
      this.#onLost(chunk, lostBytes);
      return;
    }
    this.#bulkLeft -= missingBytes;
    this.#value.lengthBytes += missingBytes;
    if (this.#bulkLeft === 0) {
      this.#endBulk();
      this.#settle(chunk);
    }
  }

  /** Reports a string whose end is among missing bytes: its length is known. Returns how many of them it has. */
  #endWithinLoss(chunk: Chunk): number {
    if (!this.#isInValue) return 0;
    const size = this.#bulkLeft;
    if (this.#left.length > 0 || size === 0) return -this.#value.lengthBytes;
    this.#value.lengthBytes += size;
    this.#bulkLeft = 0;
    this.#endBulk();
    this.#settle(chunk);
    return size;
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
      if (textTo > at) {
        const text = shortText(bytes, at, textTo);
        this.#bulkText = this.#bulkText === "" ? text : this.#bulkText + text;
      }
    }
    this.#bulkLeft -= to - at;
    if (this.#bulkLeft === 0) this.#endBulk();
    return to;
  }

  #endBulk(): void {
    if (this.#isBulkTextWanted) this.#addText(this.#bulkText);
    this.#countElement();
  }

  #addText(text: string): void {
    if (this.#texts === 0) this.#value.first = text;
    else if (this.#texts === 1) this.#value.second = text;
    this.#texts++;
  }

  /** Reads up to the line end or the end of the bytes; `#lineBytes` is 0 after a complete line. */
  #readLine(bytes: Buffer, at: number): number {
    if (this.#lineBytes === 0) {
      // Fast path: nearly every line is complete, and is a letter and a number.
      const limit = Math.min(bytes.length, at + 24);
      let end = at + 1;
      while (end < limit && bytes[end] !== 10) end++;
      if (end < limit && bytes[end - 1] === 13 && bytes[at] !== 10) {
        this.#lineBytes = this.#onLine(bytes, at, end - 1) ? 0 : -1;
        return end + 1;
      }
    }
    return this.#readSlowly(bytes, at);
  }

  #readSlowly(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(10, at);
    const to = end < 0 ? bytes.length : end;
    const keptTo = Math.min(to, at + maxTextBytes - this.#line.length);
    if (keptTo > at) this.#line += bytes.toString("latin1", at, keptTo);
    this.#lineBytes += to - at;
    if (end < 0) {
      if (this.#lineBytes > maxLineBytes) this.#lineBytes = -1;
      return to;
    }
    const line = Buffer.from(this.#line.endsWith("\r") ? this.#line.slice(0, -1) : this.#line, "latin1");
    this.#line = "";
    this.#lineBytes = this.#onLine(line, 0, line.length) ? 0 : -1;
    return end + 1;
  }

  /** False if this is not RESP. */
  #onLine(bytes: Buffer, from: number, to: number): boolean {
    const type = from < to ? (bytes[from] ?? 0) : 0;
    const isTop = this.#left.length === 0;
    if (isTop) this.#value.type = type;
    switch (type) {
      case 0x2a: // *
      case 0x7e: // ~
      case 0x3e: // >
        return this.#beginAggregate(numberIn(bytes, from + 1, to), 1);
      case 0x25: // %
      case 0x7c: // |
        return this.#beginAggregate(numberIn(bytes, from + 1, to), 2);
      case 0x24: // $
      case 0x3d: // =
      case 0x21: // !
        return this.#beginBulk(numberIn(bytes, from + 1, to), isTop && type === 0x21);
      case 0x2d: // -
        if (isTop) this.#value.first = bytes.toString("latin1", from + 1, Math.min(to, from + maxTextBytes));
        this.#countElement();
        return true;
      case 0x2b: // +
        if (!isTop && this.#isTextWanted()) this.#addText(shortText(bytes, from + 1, Math.min(to, from + maxTextBytes)));
        this.#countElement();
        return true;
      case 0x3a: // :
      case 0x5f: // _
      case 0x23: // #
      case 0x2c: // ,
      case 0x28: // (
        this.#countElement();
        return true;
      default:
        if (!isTop) return false;
        this.#value.type = 0;
        this.#value.first = bytes.toString("latin1", from, Math.min(to, from + maxTextBytes));
        return true;
    }
  }

  #isTextWanted(): boolean {
    if (this.#texts === 0) return this.#wanted.isFirstWanted();
    return this.#texts === 1 && this.#wanted.isSecondWanted(this.#value.first);
  }

  /** A count of -1 is null, -2 is invalid. */
  #beginAggregate(count: number, perElement: number): boolean {
    if (count < -1 || count > maxElements || this.#left.length >= maxDepth) return false;
    if (count <= 0) this.#countElement();
    else this.#left.push(count * perElement);
    return true;
  }

  #beginBulk(length: number, isError: boolean): boolean {
    if (length < -1 || length > maxBulkBytes) return false;
    if (length < 0) {
      this.#countElement();
      return true;
    }
    this.#bulkLeft = length + 2;
    this.#isBulkTextWanted = isError || this.#isTextWanted();
    this.#bulkText = "";
    return true;
  }

  /** An element is complete, and perhaps the aggregates around it. */
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
      this.#onLost(chunk, 0);
      return false;
    }
    if (this.#left.length > 0 || this.#bulkLeft > 0) return true;
    this.#isInValue = false;
    this.#onValue(this.#value, chunk);
    return true;
  }
}

/** Digits with or without a minus; -2 if it is not a number, -1 for any negative one. */
function numberIn(bytes: Buffer, from: number, to: number): number {
  if (from >= to || to - from > 10) return -2;
  const isNegative = bytes[from] === 45;
  let value = 0;
  for (let at = isNegative ? from + 1 : from; at < to; at++) {
    const digit = (bytes[at] ?? 0) - 48;
    if (digit < 0 || digit > 9) return -2;
    value = value * 10 + digit;
  }
  return isNegative ? -1 : value;
}

/** Interned strings of up to six bytes, by their bytes; few commands are in use. */
const knownTexts = new Map<number, string>();
const maxKnownTexts = 512;

function shortText(bytes: Buffer, from: number, to: number): string {
  if (to - from > 6) return bytes.toString("latin1", from, to);
  let key = to - from;
  for (let at = from; at < to; at++) key = key * 256 + (bytes[at] ?? 0);
  let text = knownTexts.get(key);
  if (text === undefined) {
    if (knownTexts.size >= maxKnownTexts) knownTexts.clear();
    text = bytes.toString("latin1", from, to);
    knownTexts.set(key, text);
  }
  return text;
}
