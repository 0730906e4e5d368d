/** Reads Thrift's compact protocol, as far as a Parquet footer needs it. The bytes are untrusted: reads never leave them. */

/** A struct is a map by field id. Integers are exact up to 2^53. */
export type ReadThrift = number | boolean | Uint8Array | readonly ReadThrift[] | ReadonlyMap<number, ReadThrift>;

/** Limit on nesting; a footer has five levels. */
const maxDepth = 16;

/** Reads a struct that fills all of `bytes`. Throws an Error for anything else. */
export function readThrift(bytes: Uint8Array): ReadonlyMap<number, ReadThrift> {
  const reader = new ThriftReader(bytes);
  const fields = reader.struct(0);
  if (!reader.isAtEnd) throw new Error("unexpected data after the struct");
  return fields;
}

class ThriftReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  struct(depth: number): Map<number, ReadThrift> {
    if (depth > maxDepth) throw new Error("it is nested too deeply");
    const fields = new Map<number, ReadThrift>();
    let id = 0;
    for (let head = this.#byte(); head !== 0; head = this.#byte()) {
      const delta = head >> 4;
      id = delta === 0 ? this.#zigzag() : id + delta;
      const code = head & 15;
      // A boolean field has its value in the header.
      fields.set(id, code === 1 || code === 2 ? code === 1 : this.#value(code, depth));
    }
    return fields;
  }

  #value(code: number, depth: number): ReadThrift {
    switch (code) {
      case 1:
      case 2:
        return this.#byte() === 1;
      case 3:
        return this.#byte();
      case 4:
      case 5:
      case 6:
        return this.#zigzag();
      case 7:
        return this.#take(8);
      case 8:
        return this.#take(this.#varint());
      case 9:
      case 10:
        return this.#list(depth + 1);
      case 12:
        return this.struct(depth + 1);
      default:
        throw new Error(`unknown type ${code}`);
    }
  }

  #list(depth: number): ReadThrift[] {
    if (depth > maxDepth) throw new Error("it is nested too deeply");
    const head = this.#byte();
    const count = head >> 4 === 15 ? this.#varint() : head >> 4;
    // Each item takes at least a byte.
    if (count > this.#bytes.length - this.#at) throw new Error("a list is longer than the data");
    const items: ReadThrift[] = [];
    for (let index = 0; index < count; index++) items.push(this.#value(head & 15, depth));
    return items;
  }

  #zigzag(): number {
    const value = this.#varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  #varint(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * factor;
      if (value > Number.MAX_SAFE_INTEGER) throw new Error("a number is too large");
      if (byte < 128) return value;
    }
  }

  #take(count: number): Uint8Array {
    if (count > this.#bytes.length - this.#at) throw new Error("unexpected end of data");
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  #byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw new Error("unexpected end of data");
    this.#at++;
    return byte;
  }
}
