import { CoralError } from "../../base/errors.ts";

/** Reads the fields of a MySQL packet; every read is checked against the packet's end. */
export class PacketReader {
  readonly #packet: Buffer;
  #at = 0;

  constructor(packet: Buffer) {
    this.#packet = packet;
  }

  bytes(length: number): Buffer {
    if (this.#at + length > this.#packet.length)
      throw new CoralError({ code: "unavailable", message: "cannot read from the database: a packet is too short" });
    this.#at += length;
    return this.#packet.subarray(this.#at - length, this.#at);
  }

  skip(length: number): void {
    this.bytes(length);
  }

  rest(): Buffer {
    return this.bytes(this.#packet.length - this.#at);
  }

  /** Text up to a zero byte or the end. */
  zeroText(): string {
    const end = this.#packet.indexOf(0, this.#at);
    const text = this.bytes((end < 0 ? this.#packet.length : end) - this.#at).toString("utf8");
    if (end >= 0) this.skip(1);
    return text;
  }

  /** A length-encoded integer. */
  length(): number {
    const [first = 0] = this.bytes(1);
    if (first < 0xfb) return first;
    if (first === 0xfc) return this.bytes(2).readUInt16LE(0);
    if (first === 0xfd) return this.bytes(3).readUIntLE(0, 3);
    return Number(this.bytes(8).readBigUInt64LE(0));
  }

  /** A length-encoded string; null for NULL. */
  lengthText(): string | null {
    if (this.#packet[this.#at] === 0xfb) {
      this.skip(1);
      return null;
    }
    return this.bytes(this.length()).toString("utf8");
  }
}
