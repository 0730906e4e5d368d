/**
 * Converts OTLP/JSON to OTLP/protobuf, in one pass over the bytes. Browsers and scripts send JSON, and send little, so everything behind the receiver
 * handles protobuf only.
 */

import { ByteWriter } from "../columns/byte-writer.ts";
import { wire } from "../columns/protobuf-reader.ts";
import type { OtlpSignal } from "../decode/inspect-request.ts";
import { JsonScanner } from "./json-scanner.ts";
import { type JsonField, type JsonFieldType, type JsonMessage, jsonRequests } from "./json-schema.ts";

/** More than any attribute reader accepts. The messages of a request take 8 levels. */
const maxDepth = 64;
/** A length is written before its value is known: four bytes hold 256 MiB. */
const lengthBytes = 4;
const maxBodyBytes = 1 << 27;
const minInteger = -(2n ** 63n);

/** Throws MalformedError for invalid JSON or a value of the wrong type. Unknown names are skipped. */
export function jsonToProtobuf(signal: OtlpSignal, body: Uint8Array): Uint8Array {
  const scanner = new JsonScanner(body);
  if (body.length > maxBodyBytes) throw scanner.problem("it is too long");
  const transcoder = new Transcoder(scanner);
  if (scanner.kind() !== "object") throw scanner.problem("an object expected");
  transcoder.message(jsonRequests[signal], 0);
  scanner.end();
  return transcoder.out.bytes.subarray(0, transcoder.out.size);
}

/** Recursive by message, so `maxDepth` bounds the stack. */
class Transcoder {
  readonly #scanner: JsonScanner;
  readonly out = new ByteWriter(4_096);
  readonly #fixed = new DataView(new ArrayBuffer(8));

  constructor(scanner: JsonScanner) {
    this.#scanner = scanner;
  }

  message(schema: JsonMessage, depth: number): void {
    const scanner = this.#scanner;
    if (depth > maxDepth) throw scanner.problem("it is nested too deep");
    scanner.expect("{");
    if (scanner.take("}")) return;
    do {
      scanner.string();
      const field = schema.get(camelCase(scanner.text.toString("latin1", scanner.textStart, scanner.textEnd)));
      scanner.expect(":");
      // Null means absent.
      if (field === undefined || scanner.kind() === "null") scanner.skip(maxDepth);
      else if (field.isRepeated) this.#list(field, depth);
      else this.#value(field, depth);
    } while (scanner.take(","));
    scanner.expect("}");
  }

  #list(field: JsonField, depth: number): void {
    const scanner = this.#scanner;
    scanner.expect("[");
    if (scanner.take("]")) return;
    do this.#value(field, depth);
    while (scanner.take(","));
    scanner.expect("]");
  }

  #value({ number, type }: JsonField, depth: number): void {
    const { out } = this;
    switch (type.kind) {
      case "message": {
        if (this.#scanner.kind() !== "object") throw this.#scanner.problem("an object expected");
        this.#sized(number, () => this.message(type.message(), depth + 1));
        return;
      }
      case "string":
        this.#scanner.string();
        this.#sized(number, () => out.copy(this.#scanner.text, this.#scanner.textStart, this.#scanner.textEnd));
        return;
      case "bytes":
      case "id":
        this.#bytes(number, type.kind === "id" ? "hex" : "base64");
        return;
      default:
        this.#number(number, type);
    }
  }

  /** A field whose length is known only after its content: space for it is reserved. Varints may be padded, which parsers allow. */
  #sized(number: number, write: () => void): void {
    const { out } = this;
    this.#varint(BigInt((number << 3) | wire.bytes));
    out.ensure(lengthBytes);
    const at = out.size;
    out.size += lengthBytes;
    write();
    let length = out.size - at - lengthBytes;
    for (let index = 0; index < lengthBytes; index++, length >>>= 7) {
      out.bytes[at + index] = (length & 0x7f) | (index < lengthBytes - 1 ? 0x80 : 0);
    }
  }

  #bytes(number: number, encoding: "hex" | "base64"): void {
    const scanner = this.#scanner;
    scanner.string();
    const text = scanner.text.toString("latin1", scanner.textStart, scanner.textEnd);
    const isWell = encoding === "hex" ? /^(?:[0-9a-fA-F]{2})*$/.test(text) : /^[A-Za-z0-9+/_-]*={0,2}$/.test(text);
    if (!isWell) throw scanner.problem(`${encoding} expected`);
    const bytes = Buffer.from(text, encoding);
    this.#sized(number, () => this.out.copy(bytes, 0, bytes.length));
  }

  #number(number: number, type: Exclude<JsonFieldType, { kind: "message" }>): void {
    const tag = (wireType: number): void => this.#varint(BigInt((number << 3) | wireType));
    switch (type.kind) {
      case "bool":
        tag(wire.varint);
        this.out.byte(this.#bool());
        return;
      case "double":
        tag(wire.fixed64);
        this.#fixed.setFloat64(0, this.#double(), true);
        this.#copyFixed(8);
        return;
      case "fixed64":
      case "sfixed64":
        tag(wire.fixed64);
        this.#fixed.setBigUint64(0, BigInt.asUintN(64, this.#integer(maxOf(type.kind))), true);
        this.#copyFixed(8);
        return;
      case "fixed32":
        tag(wire.fixed32);
        this.#fixed.setUint32(0, Number(BigInt.asUintN(32, this.#integer())), true);
        this.#copyFixed(4);
        return;
      case "sint32": {
        tag(wire.varint);
        const value = Number(BigInt.asIntN(32, this.#integer()));
        this.#varint(BigInt(((value << 1) ^ (value >> 31)) >>> 0));
        return;
      }
      default:
        tag(wire.varint);
        this.#varint(BigInt.asUintN(64, type.kind === "enum" ? this.#enum(type.prefix, type.names) : this.#integer(maxOf(type.kind))));
    }
  }

  #copyFixed(size: number): void {
    this.out.copy(new Uint8Array(this.#fixed.buffer), 0, size);
  }

  #bool(): number {
    const kind = this.#scanner.kind();
    if (kind !== "true" && kind !== "false") throw this.#scanner.problem("true or false expected");
    this.#scanner.literal(kind);
    return kind === "true" ? 1 : 0;
  }

  #double(): number {
    const text = this.#scanner.numberText();
    const value = Number(text);
    if (text.trim() === "" || (Number.isNaN(value) && text !== "NaN")) throw this.#scanner.problem("a number expected");
    return value;
  }

  /** Digits stay exact; a number with an exponent or a fraction of zeros is accepted as other parsers do. */
  #integer(max = 2n ** 64n - 1n): bigint {
    const text = this.#scanner.numberText();
    const value = Number(text);
    if (text.trim() === "" || !Number.isInteger(value)) throw this.#scanner.problem("a whole number expected");
    const integer = /^-?\d{1,20}$/.test(text) ? BigInt(text) : BigInt(value);
    if (integer < minInteger || integer > max) throw this.#scanner.problem("a number of 64 bits expected");
    return integer;
  }

  #enum(prefix: string, names: readonly string[]): bigint {
    const scanner = this.#scanner;
    if (scanner.kind() !== "string") return this.#integer();
    const text = scanner.numberText();
    if (/^-?\d{1,10}$/.test(text)) return BigInt(text);
    // A name from a newer version of the protocol: 0 means unknown.
    return BigInt(Math.max(0, names.indexOf(text.startsWith(prefix) ? text.slice(prefix.length) : text)));
  }

  #varint(value: bigint): void {
    let rest = value;
    while (rest > 0x7fn) {
      this.out.byte(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    this.out.byte(Number(rest));
  }
}

/** Both `start_time_unix_nano` and `startTimeUnixNano` are names of one field. */
function camelCase(name: string): string {
  return name.includes("_") ? name.replace(/_([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase()) : name;
}

function maxOf(kind: string): bigint {
  return kind === "int64" || kind === "sfixed64" ? 2n ** 63n - 1n : 2n ** 64n - 1n;
}
