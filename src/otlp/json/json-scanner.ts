/**
 * A pull parser for JSON, byte by byte: creates no objects, keeps 64-bit numbers exact, and leaves the depth limit to
 * the caller. Strings are returned as ranges of unescaped bytes.
 */

import { MalformedError } from "../columns/protobuf-reader.ts";

/** ASCII codes: `"` and `\`. */
const quote = 0x22;
const backslash = 0x5c;

/** The kind of value at the scanner's position. */
export type JsonKind = "object" | "array" | "string" | "number" | "true" | "false" | "null";

/** Blanks before a value or sign are skipped. Methods throw MalformedError with the byte offset. */
export class JsonScanner {
  readonly bytes: Buffer;
  at = 0;
  /** The last string: `text[textStart, textEnd)`. */
  text: Buffer;
  textStart = 0;
  textEnd = 0;
  #scratch = Buffer.alloc(0);

  constructor(bytes: Uint8Array) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.text = this.bytes;
    // A byte order mark is not valid in JSON, but some senders write one.
    if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) this.at = 3;
  }

  /** By the first byte. Anything that starts no other kind counts as a number, and fails when it is read. */
  kind(): JsonKind {
    switch (this.#peek()) {
      case 0x7b:
        return "object";
      case 0x5b:
        return "array";
      case quote:
        return "string";
      case 0x74:
        return "true";
      case 0x66:
        return "false";
      case 0x6e:
        return "null";
      default:
        return "number";
    }
  }

  /** Whether `sign` is next; if so, skips it. */
  take(sign: string): boolean {
    if (this.#peek() !== sign.charCodeAt(0)) return false;
    this.at++;
    return true;
  }

  expect(sign: string): void {
    if (!this.take(sign)) throw this.#problem(`"${sign}" expected`);
  }

  /** Nothing but blanks may follow. */
  end(): void {
    this.#blanks();
    if (this.at < this.bytes.length) throw this.#problem("nothing more expected");
  }

  /** Reads a string into `text`. */
  string(): void {
    this.expect('"');
    const { bytes } = this;
    const start = this.at;
    let at = start;
    while (at < bytes.length && bytes[at] !== quote && bytes[at] !== backslash) at++;
    if (at >= bytes.length) throw this.#problem("a string does not end");
    if (bytes[at] === quote) {
      this.text = bytes;
      this.textStart = start;
      this.textEnd = at;
      this.at = at + 1;
    } else {
      this.#escaped(start, at);
    }
  }

  /** A number, or a string that holds one, as text. */
  numberText(): string {
    if (this.kind() === "string") {
      this.string();
      return this.text.toString("latin1", this.textStart, this.textEnd);
    }
    const { bytes } = this;
    const start = this.at;
    while (this.at < bytes.length && isNumberByte(bytes[this.at] as number)) this.at++;
    if (this.at === start) throw this.#problem("a number expected");
    return bytes.toString("latin1", start, this.at);
  }

  /** Skips exactly this word. */
  literal(word: "true" | "false" | "null"): void {
    this.#blanks();
    for (let index = 0; index < word.length; index++) {
      if (this.bytes[this.at + index] !== word.charCodeAt(index)) throw this.#problem(`"${word}" expected`);
    }
    this.at += word.length;
  }

  /** Moves past a value of any kind, without recursion. */
  skip(maxDepth: number): void {
    const open: number[] = [];
    do {
      const kind = this.kind();
      if (kind === "object" || kind === "array") {
        this.at++;
        open.push(kind === "object" ? 0x7d : 0x5d);
        if (open.length > maxDepth) throw this.#problem("it is nested too deep");
        if (this.#isClosed(open)) continue;
        if (kind === "object") this.#key();
        continue;
      }
      this.#scalar(kind);
      this.#afterValue(open);
    } while (open.length > 0);
  }

  problem(why: string): MalformedError {
    return this.#problem(why);
  }

  /** After an opening sign: an empty object or array ends at once. */
  #isClosed(open: number[]): boolean {
    if (this.#peek() !== open.at(-1)) return false;
    this.at++;
    open.pop();
    this.#afterValue(open);
    return true;
  }

  #afterValue(open: number[]): void {
    while (open.length > 0) {
      if (this.take(",")) {
        if (open.at(-1) === 0x7d) this.#key();
        return;
      }
      if (this.#peek() !== open.at(-1)) throw this.#problem('"," or an end expected');
      this.at++;
      open.pop();
    }
  }

  #key(): void {
    this.string();
    this.expect(":");
  }

  #scalar(kind: JsonKind): void {
    if (kind === "string") this.string();
    else if (kind === "number") this.numberText();
    else this.literal(kind as "true");
  }

  #escaped(start: number, firstEscape: number): void {
    const { bytes } = this;
    let end = firstEscape;
    for (; end < bytes.length && bytes[end] !== quote; end++) if (bytes[end] === backslash) end++;
    if (end >= bytes.length) throw this.#problem("a string does not end");
    if (this.#scratch.length < end - start) this.#scratch = Buffer.allocUnsafeSlow((end - start) * 2);
    const out = this.#scratch;
    let size = 0;
    for (let at = start; at < end; ) {
      const byte = bytes[at] as number;
      if (byte !== backslash) {
        out[size++] = byte;
        at++;
        continue;
      }
      const code = bytes[at + 1] as number;
      at += 2;
      if (code === 0x75) {
        const { text, length } = this.#unicode(at, end);
        size += out.write(text, size, "utf8");
        at += length;
      } else {
        out[size++] = this.#simpleEscape(code);
      }
    }
    this.text = out;
    this.textStart = 0;
    this.textEnd = size;
    this.at = end + 1;
  }

  #simpleEscape(code: number): number {
    switch (code) {
      case quote:
      case backslash:
      case 0x2f:
        return code;
      case 0x62:
        return 8;
      case 0x66:
        return 12;
      case 0x6e:
        return 10;
      case 0x72:
        return 13;
      case 0x74:
        return 9;
      default:
        throw this.#problem("an unknown escape");
    }
  }

  /** Four hex digits at `at`, or two escapes for a surrogate pair. A lone surrogate becomes a replacement character. */
  #unicode(at: number, end: number): { text: string; length: number } {
    const first = this.#hex(at, end);
    const isHigh = first >= 0xd800 && first < 0xdc00;
    if (isHigh && this.bytes[at + 4] === backslash && this.bytes[at + 5] === 0x75) {
      const second = this.#hex(at + 6, end);
      if (second >= 0xdc00 && second < 0xe000) return { text: String.fromCharCode(first, second), length: 10 };
    }
    return { text: first >= 0xd800 && first < 0xe000 ? "\ufffd" : String.fromCharCode(first), length: 4 };
  }

  #hex(at: number, end: number): number {
    const digits = at + 4 <= end ? this.bytes.toString("latin1", at, at + 4) : "";
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.#problem("four hex digits expected");
    return Number.parseInt(digits, 16);
  }

  #peek(): number {
    this.#blanks();
    const byte = this.bytes[this.at];
    if (byte === undefined) throw this.#problem("it ends too early");
    return byte;
  }

  #blanks(): void {
    const { bytes } = this;
    for (;;) {
      const byte = bytes[this.at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.at++;
    }
  }

  #problem(why: string): MalformedError {
    return new MalformedError(`the JSON cannot be read at byte ${this.at}: ${why}`);
  }
}

function isNumberByte(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x2b || byte === 0x2e || byte === 0x65 || byte === 0x45;
}
