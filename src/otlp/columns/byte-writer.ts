/** A growing buffer for the text of one column, row after row. JSON is written as bytes, directly from the bytes of the request. */

const hexDigits = Buffer.from("0123456789abcdef");
/** 1 for bytes that JSON does not escape. */
const isPlain = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c ? 1 : 0));
const replacement = [0xef, 0xbf, 0xbd] as const;
/** The longest escape of one byte: `\u001f`. */
const maxEscapedBytes = 6;
/** A larger buffer is not kept for the next batch. */
const maxKeptBytes = 32 * 1024 * 1024;

/** High bits of the four bytes of a word. */
const highBits = 0x80808080 | 0;
/** `word - ones` sets the high bit of each byte that is 0; XOR with a character makes its occurrences 0. */
const ones = 0x01010101;

/**
 * Tests four bytes at once: sets the high bit of each byte that is not ASCII, a control character, a space, or one of `"`, `\`, `=` and `@`. May also
 * set the bit of the byte after such a byte, but of no others.
 */
function oddOf(word: number): number {
  const quotes = ((word ^ 0x22222222) - ones) | ((word ^ 0x5c5c5c5c) - ones);
  const signs = ((word ^ 0x3d3d3d3d) - ones) | ((word ^ 0x40404040) - ones);
  return (word | (word - 0x21212121) | quotes | signs) & highBits;
}

/** Bytes to read from, one at a time or in words. */
export interface ByteSource {
  readonly bytes: Uint8Array;
  /** Of the same bytes. */
  readonly view: DataView;
}

/** A source over bytes, without copying them. */
export function sourceOf(bytes: Uint8Array): ByteSource {
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
}

/** Grows by doubling. Positions are byte offsets, and `size` is the end of what was written. Its text can be read back as a source. */
export class ByteWriter implements ByteSource {
  bytes: Buffer;
  size = 0;
  view: DataView;

  constructor(initialBytes: number) {
    this.bytes = Buffer.allocUnsafeSlow(initialBytes);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Clears the text. */
  reset(): void {
    this.size = 0;
    if (this.bytes.length > maxKeptBytes) this.#use(Buffer.allocUnsafeSlow(maxKeptBytes));
  }

  /** Ensures capacity; call before a run of writes. */
  ensure(more: number): void {
    if (this.size + more > this.bytes.length) this.#grow(this.size + more);
  }

  #grow(needed: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.max(this.bytes.length * 2, needed));
    this.bytes.copy(grown, 0, 0, this.size);
    this.#use(grown);
  }

  #use(bytes: Buffer): void {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
  }

  byte(value: number): void {
    if (this.size >= this.bytes.length) this.#grow(this.size + 1);
    this.bytes[this.size++] = value;
  }

  /** Text of ASCII. */
  ascii(text: string): void {
    this.ensure(text.length);
    this.size += this.bytes.write(text, this.size, "latin1");
  }

  /** Copies bytes unchanged. */
  copy(source: Uint8Array, start: number, end: number): void {
    this.ensure(end - start);
    const { bytes } = this;
    let size = this.size;
    for (let index = start; index < end; index++) bytes[size++] = source[index] as number;
    this.size = size;
  }

  /** The same, four bytes at a time. */
  copyFrom({ view: source }: ByteSource, start: number, end: number): void {
    this.ensure(end - start);
    const { view } = this;
    const shift = this.size - start;
    let at = start;
    for (const last = end - 4; at <= last; at += 4) view.setInt32(shift + at, source.getInt32(at, true), true);
    for (; at < end; at++) view.setUint8(shift + at, source.getUint8(at));
    this.size = shift + end;
  }

  /** UTF-8, with replacement characters for invalid bytes and NUL: Parquet readers reject a whole file for one bad byte. */
  utf8(source: Uint8Array, start: number, end: number): void {
    this.ensure((end - start) * 3);
    for (let index = start; index < end; ) {
      const byte = source[index] as number;
      if (byte > 0 && byte < 0x80) {
        this.bytes[this.size++] = byte;
        index++;
      } else {
        index += this.#sequence(source, index, end);
      }
    }
  }

  /** A whole number from -2^53 to 2^53. */
  integer(value: number): void {
    this.ensure(20);
    let rest = value;
    if (rest < 0) {
      this.bytes[this.size++] = 0x2d;
      rest = -rest;
    }
    let digits = 1;
    for (let power = 10; rest >= power; power *= 10) digits++;
    let at = this.size + digits;
    this.size = at;
    while (rest > 0x7fff_ffff) {
      const next = Math.floor(rest / 10);
      this.bytes[--at] = 0x30 + (rest - next * 10);
      rest = next;
    }
    let small = rest | 0;
    do {
      const next = (small / 10) | 0;
      this.bytes[--at] = 0x30 + (small - next * 10);
      small = next;
    } while (at > this.size - digits);
  }

  /** A number as JSON. A double without a fraction keeps `.0`, so that its type survives; NaN and infinities become strings. */
  double(value: number): void {
    if (!Number.isFinite(value)) this.ascii(`"${value}"`);
    else if (Number.isInteger(value) && Math.abs(value) < 1e21) this.ascii(Object.is(value, -0) ? "-0.0" : `${value}.0`);
    else this.ascii(String(value));
  }

  /** Lowercase hex, two digits per byte, without quotes. */
  hex(source: Uint8Array, start: number, end: number): void {
    this.ensure((end - start) * 2);
    for (let index = start; index < end; index++) {
      const byte = source[index] as number;
      this.bytes[this.size++] = hexDigits[byte >> 4] as number;
      this.bytes[this.size++] = hexDigits[byte & 15] as number;
    }
  }

  /** A JSON string with its quotes. */
  jsonString(source: Uint8Array, start: number, end: number): void {
    this.ensure((end - start) * maxEscapedBytes + 2);
    const { bytes } = this;
    let size = this.size;
    bytes[size++] = 0x22;
    let index = start;
    while (index < end) {
      const byte = source[index] as number;
      if (isPlain[byte] === 1) {
        bytes[size++] = byte;
        index++;
      } else {
        this.size = size;
        index += this.#escape(source, index, end);
        size = this.size;
      }
    }
    bytes[size++] = 0x22;
    this.size = size;
  }

  /**
   * A JSON string of bytes that need no escape, which most values are: ids, numbers, names. Returns false and writes nothing if any byte needs an escape,
   * or may be next to a secret: a space, `=` or `@`. Four bytes at a time, three times as fast as byte by byte.
   */
  plainString({ view: source }: ByteSource, start: number, end: number): boolean {
    this.ensure(end - start + 2);
    const { view } = this;
    const shift = this.size + 1 - start;
    let odd = 0;
    let at = start;
    for (const last = end - 4; at <= last; at += 4) {
      const word = source.getInt32(at, true);
      odd |= oddOf(word);
      view.setInt32(shift + at, word, true);
    }
    for (; at < end; at++) {
      const byte = source.getUint8(at);
      odd |= oddOf(byte | 0x30303000);
      view.setUint8(shift + at, byte);
    }
    if (odd !== 0) return false;
    view.setUint8(this.size, 0x22);
    view.setUint8(shift + end, 0x22);
    this.size = shift + end + 1;
    return true;
  }

  #escape(source: Uint8Array, index: number, end: number): number {
    const byte = source[index] as number;
    if (byte >= 0x80) return this.#sequence(source, index, end);
    const { bytes } = this;
    bytes[this.size++] = 0x5c;
    if (byte === 0x22 || byte === 0x5c) {
      bytes[this.size++] = byte;
    } else if (byte === 0x0a || byte === 0x0d || byte === 0x09) {
      bytes[this.size++] = byte === 0x0a ? 0x6e : byte === 0x0d ? 0x72 : 0x74;
    } else {
      this.size += bytes.write(`u00${byte < 16 ? "0" : "1"}`, this.size, "latin1");
      bytes[this.size++] = hexDigits[byte & 15] as number;
    }
    return 1;
  }

  /** Copies one multi-byte character, or a replacement for one invalid byte. Returns the number of source bytes. */
  #sequence(source: Uint8Array, index: number, end: number): number {
    const length = sequenceLength(source, index, end);
    if (length === 0) {
      for (const byte of replacement) this.bytes[this.size++] = byte;
      return 1;
    }
    for (let offset = 0; offset < length; offset++) this.bytes[this.size++] = source[index + offset] as number;
    return length;
  }
}

/** Bytes of the valid UTF-8 sequence (of two to four bytes) at `index`, or 0. */
function sequenceLength(source: Uint8Array, index: number, end: number): number {
  const first = source[index] as number;
  const length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length === 0 || index + length > end) return 0;
  const second = source[index + 1] as number;
  // The second byte reveals overlong forms, surrogates and code points beyond Unicode.
  const lowest = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const highest = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (second < lowest || second > highest) return 0;
  for (let offset = 2; offset < length; offset++) if (((source[index + offset] as number) & 0xc0) !== 0x80) return 0;
  return length;
}

/** The end of the longest prefix of at most `maxBytes` that does not split a character. */
export function utf8Cut(source: Uint8Array, start: number, end: number, maxBytes: number): number {
  if (end - start <= maxBytes) return end;
  let cut = start + maxBytes;
  for (let back = 0; back < 3 && cut > start && ((source[cut] as number) & 0xc0) === 0x80; back++) cut--;
  return cut;
}
