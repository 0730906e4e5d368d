/** Reads OTLP attributes in place and writes them as JSON, within limits. They have the same form in every kind of message. */

import { beginsLikeSecret, mask, type Secrecy } from "../../redact/index.ts";
import { AttributeKeys } from "../columns/attribute-keys.ts";
import { type ByteWriter, utf8Cut } from "../columns/byte-writer.ts";
import type { KnownKeys } from "../columns/known-keys.ts";
import { MalformedError, type ProtobufReader } from "../columns/protobuf-reader.ts";
import { SecretFilter } from "../columns/secret-filter.ts";

/** Limits per span, log record, event, link, resource or scope. Anything beyond is dropped and counted. */
export interface AttributeLimits {
  /** Attributes of one owner. */
  maxCount: number;
  /** Of one string or byte value. */
  maxValueBytes: number;
  /** Of one owner's attributes as JSON. */
  maxBytes: number;
  /** Nesting depth of arrays and maps. */
  maxDepth: number;
}

export const defaultAttributeLimits: AttributeLimits = { maxCount: 256, maxValueBytes: 16_384, maxBytes: 65_536, maxDepth: 8 };

/** Tags of AnyValue's fields. */
export const anyValue = { string: 10, bool: 16, int: 24, double: 33, array: 42, map: 50, bytes: 58 } as const;
/** KeyValue.key: field 1, length-delimited. */
const keyTag = 10;
/** KeyValue.value: field 2, an AnyValue. */
const valueTag = 18;
/** The values of both ArrayValue and KeyValueList: field 1. */
const itemTag = 10;
/** Longer keys are cut, at a character boundary. Semantic conventions stay below 100. */
const maxKeyBytes = 1_024;

/** Reads one attribute at a time: `open` finds its key and value, `writeTo` appends it to an object. Its caller decides what is stored. */
export class AttributeReader {
  readonly #reader: ProtobufReader;
  readonly #limits: AttributeLimits;
  /** Also for texts outside of attributes. */
  readonly secrets = new SecretFilter();
  readonly #keys: AttributeKeys;
  #key = 0;
  /** The last attribute that `open` found: its key and its value's bytes. */
  keyStart = 0;
  keyEnd = 0;
  /** A tag of `anyValue`, or 0 for none. */
  valueKind = 0;
  valueStart = 0;
  valueEnd = 0;
  /** Values truncated or dropped because of a limit. */
  cut = 0;

  /** `known`: keys that `keyId` returns numbers for. */
  constructor(reader: ProtobufReader, limits: AttributeLimits = defaultAttributeLimits, known?: KnownKeys) {
    this.#reader = reader;
    this.#limits = limits;
    this.#keys = new AttributeKeys(known);
  }

  /** Number of the opened key among the known ones, or -1. */
  get keyId(): number {
    return this.#keys.idOf(this.#key);
  }

  /** Reads a KeyValue that ends at `end` and moves past it. */
  open(end: number): void {
    const reader = this.#reader;
    this.keyStart = 0;
    this.keyEnd = 0;
    let start = 0;
    let until = -1;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === keyTag) {
        this.keyEnd = reader.end(end);
        this.keyStart = reader.at;
        reader.at = this.keyEnd;
      } else if (tag === valueTag) {
        until = reader.end(end);
        start = reader.at;
        reader.at = until;
      } else {
        reader.skip(tag, end);
      }
    }
    this.#key = this.#keys.codeOf(reader, this.keyStart, utf8Cut(reader.bytes, this.keyStart, this.keyEnd, maxKeyBytes));
    this.#openValue(start, until);
    reader.at = end;
  }

  /** The set field of the oneof; the last one wins. */
  #openValue(start: number, end: number): void {
    const reader = this.#reader;
    this.valueKind = 0;
    reader.at = start;
    while (reader.at < end) {
      const tag = reader.tag();
      switch (tag) {
        case anyValue.string:
        case anyValue.array:
        case anyValue.map:
        case anyValue.bytes:
          this.valueEnd = reader.end(end);
          this.valueStart = reader.at;
          this.valueKind = tag;
          reader.at = this.valueEnd;
          break;
        case anyValue.bool:
        case anyValue.int:
          this.valueStart = reader.at;
          reader.uint();
          this.valueEnd = reader.at;
          this.valueKind = tag;
          if (reader.at > end) throw new MalformedError("a field is longer than the message around it");
          break;
        case anyValue.double:
          this.valueStart = reader.fixed64(end);
          this.valueEnd = reader.at;
          this.valueKind = tag;
          break;
        default:
          reader.skip(tag, end);
      }
    }
  }

  /** An AnyValue in [start, end) without a key: a log's body. */
  openValue(start: number, end: number): void {
    this.#openValue(start, end);
    this.#reader.at = end;
  }

  /** Adds the attribute that was opened as `"key":value`, with a comma before it unless the object began at `objectStart`. */
  writeTo(out: ByteWriter, objectStart: number): void {
    const before = out.size;
    if (before > objectStart + 1) out.byte(0x2c);
    this.#writeEntry(out, 0);
    if (out.size - objectStart <= this.#limits.maxBytes) return;
    out.size = before;
    this.cut++;
  }

  #writeEntry(out: ByteWriter, depth: number): void {
    this.#keys.writeTo(out, this.#key);
    const secrecy = this.#keys.secrecyOf(this.#key);
    if (secrecy === "all" && this.valueKind !== 0) {
      out.ascii(`"${mask}"`);
      this.#reader.at = this.valueEnd;
    } else this.writeValue(out, depth, secrecy);
  }

  /** The opened value as JSON. */
  writeValue(out: ByteWriter, depth = 0, secrecy: Secrecy = "none"): void {
    const reader = this.#reader;
    const { valueStart, valueEnd } = this;
    switch (this.valueKind) {
      case anyValue.string:
        this.#writeText(out, valueStart, this.#cutAt(valueStart, valueEnd), secrecy);
        break;
      case anyValue.bool:
        reader.at = valueStart;
        out.ascii(reader.uint() === 0 ? "false" : "true");
        break;
      case anyValue.int:
        this.#writeInt(out);
        break;
      case anyValue.double:
        out.double(reader.view.getFloat64(valueStart, true));
        break;
      case anyValue.array:
      case anyValue.map:
        this.#writeNested(out, this.valueKind, valueStart, valueEnd, depth + 1);
        break;
      case anyValue.bytes:
        this.#writeBytes(out, valueStart, valueEnd);
        break;
      default:
        out.ascii("null");
    }
    reader.at = valueEnd;
  }

  #writeText(out: ByteWriter, start: number, end: number, secrecy: Secrecy): void {
    const { bytes } = this.#reader;
    if (secrecy === "none" && !beginsLikeSecret(bytes, start, end) && out.plainString(this.#reader, start, end)) return;
    const instead = this.secrets.instead(bytes, start, end, secrecy);
    if (instead === undefined) return out.jsonString(bytes, start, end);
    const kept = Buffer.from(instead);
    out.jsonString(kept, 0, kept.length);
  }

  #cutAt(start: number, end: number): number {
    const cut = utf8Cut(this.#reader.bytes, start, end, this.#limits.maxValueBytes);
    if (cut < end) this.cut++;
    return cut;
  }

  #writeInt(out: ByteWriter): void {
    const reader = this.#reader;
    reader.at = this.valueStart;
    if (this.valueEnd - this.valueStart <= 7) out.integer(reader.uint());
    else out.ascii(reader.int64().toString());
  }

  #writeBytes(out: ByteWriter, start: number, end: number): void {
    const cut = Math.min(end, start + this.#limits.maxValueBytes);
    if (cut < end) this.cut++;
    const { bytes } = this.#reader;
    out.ascii(`"${Buffer.from(bytes.buffer, bytes.byteOffset + start, cut - start).toString("base64")}"`);
  }

  #writeNested(out: ByteWriter, kind: number, start: number, end: number, depth: number): void {
    if (depth > this.#limits.maxDepth) {
      this.cut++;
      out.ascii("null");
      return;
    }
    const reader = this.#reader;
    const isMap = kind === anyValue.map;
    const first = out.size + 1;
    out.byte(isMap ? 0x7b : 0x5b);
    reader.at = start;
    let count = 0;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag !== itemTag) {
        reader.skip(tag, end);
        continue;
      }
      const itemEnd = reader.end(end);
      // A value of many small parts grows as JSON. Its total size is bounded here, its strings where they are written.
      if (++count > this.#limits.maxCount * 16 || out.size - first > this.#limits.maxBytes) {
        this.cut++;
        reader.at = itemEnd;
        continue;
      }
      if (out.size > first) out.byte(0x2c);
      if (isMap) {
        this.open(itemEnd);
        this.#writeEntry(out, depth);
      } else {
        this.openValue(reader.at, itemEnd);
        this.writeValue(out, depth);
      }
      reader.at = itemEnd;
    }
    out.byte(isMap ? 0x7d : 0x5d);
  }

  /** Attributes of one owner; the writer counts them. */
  get maxCount(): number {
    return this.#limits.maxCount;
  }
}
