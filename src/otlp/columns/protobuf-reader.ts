/**
 * Reads protobuf's wire format in place: no objects, no strings, no recursion. Every length is checked against the enclosing message,
 * so a reader of a nested message can never leave it.
 */

/** The bytes are not a message of this kind. The reader's position is undefined afterwards. */
export class MalformedError extends Error {
  override readonly name: string = "MalformedError";
}

/** Valid protobuf, but not acceptable. `inspectRequest` counts it too, so that the reply to the sender includes it. */
export class RejectedError extends MalformedError {
  override readonly name = "RejectedError";
}

/** Groups are obsolete, but may occur in fields that this reader skips. */
const maxGroupDepth = 32;
/** A varint has 7 bits per byte, so 64 bits take up to 10. */
const maxVarintBytes = 10;

export const wire = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

const noBytes = new Uint8Array(0);
const noView = new DataView(noBytes.buffer);

/** A cursor over one message. Callers read a tag, then the field by its wire type, and pass the end of the enclosing message as `limit`. */
export class ProtobufReader {
  bytes: Uint8Array = noBytes;
  view: DataView = noView;
  /** Of the next byte. */
  at = 0;

  /** Restarts with other bytes, without copying them. */
  open(bytes: Uint8Array): void {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  /** A field's number and wire type: `number << 3 | type`. */
  tag(): number {
    const tag = this.uint();
    if (tag < 8 || tag > 0xffff_ffff) throw new MalformedError("a field has no valid number");
    return tag;
  }

  /** A varint; exact up to 2^53, rounded beyond. */
  uint(): number {
    const byte = this.bytes[this.at++] as number;
    return byte < 0x80 ? byte : this.#longUint(byte);
  }

  #longUint(first: number): number {
    const { bytes } = this;
    let value = first & 0x7f;
    let scale = 0x80;
    for (let count = 1; count < maxVarintBytes; count++) {
      if (this.at >= bytes.length) throw new MalformedError("the message ends inside a number");
      const byte = bytes[this.at++] as number;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
    throw new MalformedError(this.at > bytes.length ? "the message ends inside a number" : "a number has more than 10 bytes");
  }

  /** A varint of 64 bits. */
  uint64(): bigint {
    const start = this.at;
    const value = this.uint();
    // Seven bytes hold 49 bits.
    if (this.at - start <= 7) return BigInt(value);
    let exact = 0n;
    for (let index = start, shift = 0n; index < this.at; index++, shift += 7n) {
      exact |= BigInt((this.bytes[index] as number) & 0x7f) << shift;
    }
    return BigInt.asUintN(64, exact);
  }

  int64(): bigint {
    return BigInt.asIntN(64, this.uint64());
  }

  /** A varint as a signed number of 32 bits, as enums and `int32` are sent: negative ones take ten bytes. */
  int32(): number {
    const start = this.at;
    const value = this.uint();
    return this.at - start < maxVarintBytes ? value | 0 : Number(BigInt.asIntN(32, this.#again(start)));
  }

  /** Zigzag. */
  sint32(): number {
    const value = this.uint();
    return (value >>> 1) ^ -(value & 1);
  }

  #again(start: number): bigint {
    this.at = start;
    return this.uint64();
  }

  /** The end of a field with a length, which must lie within `limit`. `at` is then its first byte. */
  end(limit: number): number {
    const length = this.uint();
    if (length > limit - this.at) throw new MalformedError("a field is longer than the message around it");
    return this.at + length;
  }

  /** Calls `visit` with the end of each field of this tag, up to `limit`, with the reader at its first byte. Other fields are skipped. */
  each(tag: number, limit: number, visit: (end: number) => void): void {
    while (this.at < limit) {
      const found = this.tag();
      if (found !== tag) {
        this.skip(found, limit);
        continue;
      }
      const end = this.end(limit);
      visit(end);
      this.at = end;
    }
  }

  /** Call before 8 bytes are read from `view` at `at`; moves past them and returns where they are. */
  fixed64(limit: number): number {
    const at = this.at;
    if (limit - at < 8) throw new MalformedError("the message ends inside a number");
    this.at = at + 8;
    return at;
  }

  fixed32(limit: number): number {
    const at = this.at;
    if (limit - at < 4) throw new MalformedError("the message ends inside a number");
    this.at = at + 4;
    return at;
  }

  /** Skips a field of any kind. */
  skip(tag: number, limit: number): void {
    switch (tag & 7) {
      case wire.varint:
        this.uint();
        break;
      case wire.fixed64:
        this.fixed64(limit);
        break;
      case wire.bytes:
        this.at = this.end(limit);
        break;
      case wire.fixed32:
        this.fixed32(limit);
        break;
      case wire.startGroup:
        this.#skipGroup(tag >>> 3, limit);
        break;
      default:
        throw new MalformedError(`a field has wire type ${tag & 7}`);
    }
    if (this.at > limit) throw new MalformedError("a field is longer than the message around it");
  }

  #skipGroup(field: number, limit: number): void {
    const open = [field];
    while (open.length > 0) {
      if (this.at >= limit) throw new MalformedError("the message ends inside a group");
      const tag = this.tag();
      const type = tag & 7;
      if (type === wire.startGroup) {
        if (open.length >= maxGroupDepth) throw new MalformedError("groups are nested too deep");
        open.push(tag >>> 3);
      } else if (type === wire.endGroup) {
        if (open.pop() !== tag >>> 3) throw new MalformedError("a group ends without a start");
      } else {
        this.skip(tag, limit);
      }
    }
  }
}
