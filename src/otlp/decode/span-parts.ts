/** Events and links of a span, as JSON. Written after the whole span was read: events have times relative to its start. */

import type { ByteDictionary } from "../columns/byte-dictionary.ts";
import { type ByteWriter, utf8Cut } from "../columns/byte-writer.ts";
import type { ProtobufReader } from "../columns/protobuf-reader.ts";
import { type AttributeReader, anyValue } from "./attribute-reader.ts";
import { type SpanColumns, textId } from "./span-columns.ts";

const eventTag = { time: 9, name: 18, attribute: 26, dropped: 32 } as const;
const linkTag = { traceId: 10, spanId: 18, traceState: 26, attribute: 34, dropped: 40, flags: 53 } as const;
/** Events, and links, of one span; more are counted only. */
const maxParts = 128;
/** Of an event name, a trace state, or an exception type. */
const maxNameBytes = 1_024;
/** JSON bytes of all events, or all links, of one span. */
const maxPartBytes = 256 * 1_024;
const exceptionTypeId = textId("exception_type");

/** Use as `begin`, then `event` and `link` for each part, then `finish`. */
export class SpanParts {
  readonly #reader: ProtobufReader;
  readonly #attributes: AttributeReader;
  readonly #dictionary: ByteDictionary;
  readonly #columns: SpanColumns;
  /** Start and end offsets in the request, alternating. */
  readonly #events: number[] = [];
  readonly #links: number[] = [];

  constructor(reader: ProtobufReader, attributes: AttributeReader, dictionary: ByteDictionary, columns: SpanColumns) {
    this.#reader = reader;
    this.#attributes = attributes;
    this.#dictionary = dictionary;
    this.#columns = columns;
  }

  /** Clears the parts of the previous span. */
  begin(): void {
    // Most spans have no parts, and setting a length is slower than reading it.
    if (this.#events.length > 0) this.#events.length = 0;
    if (this.#links.length > 0) this.#links.length = 0;
  }

  /** From the reader's position to `end`. */
  event(end: number): void {
    this.#remember(this.#events, end);
  }

  link(end: number): void {
    this.#remember(this.#links, end);
  }

  #remember(parts: number[], end: number): void {
    if (parts.length >= maxParts * 2) this.#attributes.cut++;
    else parts.push(this.#reader.at, end);
    this.#reader.at = end;
  }

  /** Writes both cells of a row. */
  finish(row: number, startLow: number, startHigh: number): void {
    const { events, links } = this.#columns;
    if (this.#events.length > 0) {
      this.#list(this.#events, events.writer, (out, end) => this.#writeEvent(row, out, end, startLow, startHigh));
    }
    events.end(row, this.#events.length > 0);
    if (this.#links.length > 0) this.#list(this.#links, links.writer, (out, end) => this.#writeLink(out, end));
    links.end(row, this.#links.length > 0);
  }

  #list(parts: readonly number[], out: ByteWriter, write: (out: ByteWriter, end: number) => void): void {
    const start = out.size;
    out.byte(0x5b);
    for (let index = 0; index < parts.length; index += 2) {
      const before = out.size;
      if (before > start + 1) out.byte(0x2c);
      this.#reader.at = parts[index] as number;
      write(out, parts[index + 1] as number);
      if (out.size - start <= maxPartBytes) continue;
      out.size = before;
      this.#attributes.cut++;
    }
    out.byte(0x5d);
  }

  #writeEvent(row: number, out: ByteWriter, end: number, startLow: number, startHigh: number): void {
    const reader = this.#reader;
    const start = reader.at;
    let dropped = 0;
    let hasTime = false;
    out.ascii("{");
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === eventTag.time) {
        const at = reader.fixed64(end);
        const offset = (reader.view.getUint32(at + 4, true) - startHigh) * 2 ** 32 + (reader.view.getUint32(at, true) - startLow);
        if (!hasTime) out.ascii(`"offset_ns":${offset},`);
        hasTime = true;
      } else if (tag === eventTag.dropped) {
        dropped = reader.uint();
      } else {
        reader.skip(tag, end);
      }
    }
    out.ascii('"name":');
    this.#string(out, start, end, eventTag.name);
    this.#object(out, start, end, eventTag.attribute, row);
    if (dropped > 0) out.ascii(`,"dropped":${dropped}`);
    out.ascii("}");
  }

  #writeLink(out: ByteWriter, end: number): void {
    const reader = this.#reader;
    const start = reader.at;
    let dropped = 0;
    let flags = 0;
    out.ascii("{");
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === linkTag.traceId || tag === linkTag.spanId) {
        const idEnd = reader.end(end);
        out.ascii(tag === linkTag.traceId ? '"trace_id":"' : '"span_id":"');
        out.hex(reader.bytes, reader.at, Math.min(idEnd, reader.at + 16));
        out.ascii('",');
        reader.at = idEnd;
      } else if (tag === linkTag.dropped) {
        dropped = reader.uint();
      } else if (tag === linkTag.flags) {
        flags = reader.view.getUint32(reader.fixed32(end), true);
      } else {
        reader.skip(tag, end);
      }
    }
    out.ascii('"trace_state":');
    this.#string(out, start, end, linkTag.traceState);
    if (flags > 0) out.ascii(`,"flags":${flags}`);
    this.#object(out, start, end, linkTag.attribute, -1);
    if (dropped > 0) out.ascii(`,"dropped":${dropped}`);
    out.ascii("}");
  }

  /** The string field of a message in [start, end); empty if absent. */
  #string(out: ByteWriter, start: number, end: number, field: number): void {
    const reader = this.#reader;
    let from = start;
    let until = start;
    reader.at = start;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag !== field) {
        reader.skip(tag, end);
        continue;
      }
      until = reader.end(end);
      from = reader.at;
      reader.at = until;
    }
    out.jsonString(reader.bytes, from, utf8Cut(reader.bytes, from, until, maxNameBytes));
  }

  /** `,"attributes":{…}`; nothing when there are none. The type of an exception also goes to the span. */
  #object(out: ByteWriter, start: number, end: number, field: number, row: number): void {
    const reader = this.#reader;
    const attributes = this.#attributes;
    let objectStart = -1;
    let count = 0;
    reader.at = start;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag !== field) {
        reader.skip(tag, end);
        continue;
      }
      const attributeEnd = reader.end(end);
      attributes.open(attributeEnd);
      if (row >= 0 && attributes.valueKind === anyValue.string) this.#exceptionType(row);
      if (objectStart < 0) {
        out.ascii(',"attributes":');
        objectStart = out.size;
        out.byte(0x7b);
      }
      if (++count > attributes.maxCount) attributes.cut++;
      else attributes.writeTo(out, objectStart);
      reader.at = attributeEnd;
    }
    if (objectStart >= 0) out.byte(0x7d);
  }

  #exceptionType(row: number): void {
    const { keyId, valueStart, valueEnd } = this.#attributes;
    const { bytes } = this.#reader;
    const column = this.#columns.texts[exceptionTypeId];
    if (column === undefined || column.has(row) || keyId !== exceptionTypeId) return;
    column.set(row, this.#dictionary.codeOf(this.#reader, valueStart, utf8Cut(bytes, valueStart, valueEnd, maxNameBytes)));
  }
}
