/** OTLP trace requests (protobuf) into the columns of the `span` signal. */

import type { SegmentBatch } from "../../store/segments/index.ts";
import { ByteDictionary } from "../columns/byte-dictionary.ts";
import { utf8Cut } from "../columns/byte-writer.ts";
import type { CodeBuilder } from "../columns/column-builders.ts";
import { MalformedError, ProtobufReader, RejectedError } from "../columns/protobuf-reader.ts";
import { microseconds, nanosecondsBetween } from "../columns/split-time.ts";
import { StatementMasker } from "../columns/statement-masker.ts";
import { type AttributeLimits, AttributeReader, anyValue, defaultAttributeLimits } from "./attribute-reader.ts";
import { type DecodeCounts, ItemRows } from "./item-rows.ts";
import { setCode } from "./owner-columns.ts";
import { ResourceReader } from "./resource-reader.ts";
import { firstIntId, rpcStatusIndex, SpanColumns, spanKeys, textId } from "./span-columns.ts";
import { SpanParts } from "./span-parts.ts";

const spanTag = {
  traceId: 10,
  spanId: 18,
  traceState: 26,
  parentSpanId: 34,
  name: 42,
  kind: 48,
  start: 57,
  end: 65,
  attribute: 74,
  droppedAttributes: 80,
  event: 90,
  droppedEvents: 96,
  link: 106,
  droppedLinks: 112,
  status: 122,
  flags: 133,
} as const;
const statusTag = { message: 18, code: 24 } as const;

const kinds = ["unspecified", "internal", "server", "client", "producer", "consumer"];
const statuses = ["unset", "ok", "error"];

/** By number. */
const grpcStatusNames =
  "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED".split(
    " ",
  );

const urlPathId = textId("url_path");
const statementId = textId("db_statement");
const systemId = textId("db_system");
/** Of a span name. Longer ones are cut: they go to the dictionary. */
const maxNameBytes = 1_024;
/** Of an attribute with its own column, such as a URL path or a statement. */
const maxPromotedBytes = 4_096;

/** One per worker. Call `add` for each request, then `finish`; `reset` starts the next batch with the same memory. */
export class SpanDecoder {
  readonly #reader = new ProtobufReader();
  readonly #dictionary = new ByteDictionary();
  readonly #attributes: AttributeReader;
  readonly #owners: ResourceReader;
  readonly #columns: SpanColumns;
  readonly #parts: SpanParts;
  readonly #masker = new StatementMasker();
  readonly #rows: ItemRows;
  #kindCodes: number[] = [];
  #statusCodes: number[] = [];

  constructor(limits: AttributeLimits = defaultAttributeLimits) {
    const [reader, dictionary] = [this.#reader, this.#dictionary];
    const attributes = new AttributeReader(reader, limits, spanKeys);
    const owners = new ResourceReader(reader, attributes, dictionary);
    const columns = new SpanColumns(dictionary);
    this.#attributes = attributes;
    this.#owners = owners;
    this.#columns = columns;
    this.#parts = new SpanParts(reader, attributes, dictionary, columns);
    const readItem = (row: number, end: number, receivedAtUs: number): void => this.#span(row, end, receivedAtUs);
    this.#rows = new ItemRows({ reader, owners, attributes, dictionary, columns, readItem });
    this.#nameCodes();
  }

  get counts(): DecodeCounts {
    return this.#rows.counts;
  }

  add(body: Uint8Array, receivedAtUs: number): void {
    this.#rows.add(body, receivedAtUs);
  }

  /** Call after the last request. The batch is valid until `reset`. */
  finish(): SegmentBatch {
    return this.#rows.finish();
  }

  reset(): void {
    this.#rows.reset();
    this.#masker.reset();
    this.#nameCodes();
  }

  #nameCodes(): void {
    this.#kindCodes = kinds.map((text) => this.#dictionary.codeOfText(text));
    this.#statusCodes = statuses.map((text) => this.#dictionary.codeOfText(text));
  }

  // One function on purpose: split in two, spans decode about 4 % slower (the locals become fields).
  // oxlint-disable-next-line max-lines-per-function
  #span(row: number, end: number, receivedAtUs: number): void {
    const reader = this.#reader;
    const columns = this.#columns;
    const { view } = reader;
    const json = columns.attributes.writer;
    const jsonStart = json.size;
    let startLow = 0;
    let startHigh = 0;
    let endLow = 0;
    let endHigh = 0;
    let kind = 0;
    let attributes = 0;
    let dropped = 0;
    let hasIds = 0;
    const cutBefore = this.#attributes.cut;
    this.#parts.begin();
    json.byte(0x7b);
    columns.status.set(row, this.#statusCodes[0] as number);
    while (reader.at < end) {
      const tag = reader.tag();
      switch (tag) {
        case spanTag.traceId:
          if (this.#id(columns.traceId, row, end)) hasIds |= 1;
          break;
        case spanTag.spanId:
          if (this.#id(columns.spanId, row, end)) hasIds |= 2;
          break;
        case spanTag.parentSpanId:
          this.#id(columns.parentSpanId, row, end);
          break;
        case spanTag.traceState:
          setCode(columns.traceState, row, this.#owners.text(end));
          break;
        case spanTag.name:
          this.#text(columns.name, row, end);
          break;
        case spanTag.kind:
          kind = reader.uint();
          break;
        case spanTag.start: {
          const at = reader.fixed64(end);
          startLow = view.getUint32(at, true);
          startHigh = view.getUint32(at + 4, true);
          break;
        }
        case spanTag.end: {
          const at = reader.fixed64(end);
          endLow = view.getUint32(at, true);
          endHigh = view.getUint32(at + 4, true);
          break;
        }
        case spanTag.attribute:
          this.#attribute(row, reader.end(end), jsonStart, ++attributes);
          break;
        case spanTag.droppedAttributes:
        case spanTag.droppedEvents:
        case spanTag.droppedLinks:
          dropped += reader.uint();
          break;
        case spanTag.event:
          this.#parts.event(reader.end(end));
          break;
        case spanTag.link:
          this.#parts.link(reader.end(end));
          break;
        case spanTag.status:
          this.#status(row, reader.end(end));
          break;
        case spanTag.flags:
          columns.flags.set(row, view.getInt32(reader.fixed32(end), true));
          break;
        default:
          reader.skip(tag, end);
      }
    }
    if (reader.at > end) throw new MalformedError("a field is longer than the message around it");
    if (hasIds !== 3) throw new RejectedError("a span has no valid ids");
    json.byte(0x7d);
    if (json.size === jsonStart + 2) json.size = jsonStart;
    columns.attributes.end(row, json.size > jsonStart);
    const isTimed = startLow !== 0 || startHigh !== 0;
    columns.time.setNumber(row, isTimed ? microseconds(startLow, startHigh) : receivedAtUs);
    columns.durationNs.setNumber(row, isTimed ? nanosecondsBetween(startLow, startHigh, endLow, endHigh) : 0);
    columns.kind.set(row, this.#kindCodes[kind] ?? (this.#kindCodes[0] as number));
    columns.weight.set(row, 1);
    this.#parts.finish(row, startLow, startHigh);
    this.#mask(row);
    dropped += this.#attributes.cut - cutBefore;
    if (dropped > 0) columns.dropped.set(row, Math.min(dropped, 0x7fff_ffff));
  }

  #id(column: SpanColumns["traceId"], row: number, limit: number): boolean {
    const reader = this.#reader;
    const end = reader.end(limit);
    const isSet = column.set(row, reader.bytes, reader.at, end);
    reader.at = end;
    return isSet;
  }

  #text(column: CodeBuilder, row: number, limit: number): void {
    const reader = this.#reader;
    const end = reader.end(limit);
    const cut = utf8Cut(reader.bytes, reader.at, end, maxNameBytes);
    column.set(row, this.#attributes.secrets.codeIn(this.#dictionary, reader, reader.at, cut));
    reader.at = end;
  }

  #status(row: number, end: number): void {
    const reader = this.#reader;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === statusTag.code) this.#columns.status.set(row, this.#statusCodes[reader.uint()] ?? (this.#statusCodes[0] as number));
      else if (tag === statusTag.message) setCode(this.#columns.statusMessage, row, this.#owners.text(end));
      else reader.skip(tag, end);
    }
  }

  #attribute(row: number, end: number, jsonStart: number, count: number): void {
    const attributes = this.#attributes;
    attributes.open(end);
    const id = attributes.keyId;
    if (id < 0 || !this.#promote(row, id)) {
      // A second statement, or one of an unexpected type, would keep its values.
      if (count > attributes.maxCount || id === statementId) attributes.cut++;
      else attributes.writeTo(this.#columns.attributes.writer, jsonStart);
    }
    this.#reader.at = end;
  }

  /** False if the value does not fit its column, or the column already has a value. */
  #promote(row: number, id: number): boolean {
    const { valueKind, valueStart, valueEnd } = this.#attributes;
    const { bytes } = this.#reader;
    if (id >= firstIntId) return this.#promoteInt(row, id - firstIntId);
    if (valueKind !== anyValue.string) return false;
    const column = this.#columns.texts[id] as CodeBuilder;
    let end = utf8Cut(bytes, valueStart, valueEnd, maxPromotedBytes);
    // Query strings often contain secrets, and differ for almost every request.
    if (id === urlPathId) end = endOfPath(bytes, valueStart, end);
    const code = this.#attributes.secrets.codeIn(this.#dictionary, this.#reader, valueStart, end);
    if (column.has(row)) return column.get(row) === code;
    column.set(row, code);
    return true;
  }

  #promoteInt(row: number, index: number): boolean {
    const column = this.#columns.ints[index];
    const value = index === rpcStatusIndex ? this.#rpcStatus() : this.#wholeNumber();
    if (column === undefined || value < 0) return false;
    if (column.has(row)) return column.get(row) === value;
    column.set(row, value);
    return true;
  }

  /** Newer conventions use the name of a status, older ones its number. */
  #rpcStatus(): number {
    const { valueKind, valueStart, valueEnd } = this.#attributes;
    const code = this.#wholeNumber();
    if (code >= 0 || valueKind !== anyValue.string || valueEnd - valueStart > 32) return code;
    return grpcStatusNames.indexOf(Buffer.from(this.#reader.bytes.subarray(valueStart, valueEnd)).toString("latin1"));
  }

  /** The opened value as a number of 31 bits, or -1. */
  #wholeNumber(): number {
    const { valueKind, valueStart, valueEnd } = this.#attributes;
    const reader = this.#reader;
    if (valueKind === anyValue.int) {
      reader.at = valueStart;
      const value = reader.uint();
      return value <= 0x7fff_ffff ? value : -1;
    }
    if (valueKind !== anyValue.string || valueEnd === valueStart || valueEnd - valueStart > 9) return -1;
    let value = 0;
    for (let at = valueStart; at < valueEnd; at++) {
      const digit = (reader.bytes[at] as number) - 0x30;
      if (digit < 0 || digit > 9) return -1;
      value = value * 10 + digit;
    }
    return value;
  }

  /** Keeps only the shape of a statement: its values may be private. */
  #mask(row: number): void {
    const column = this.#columns.texts[statementId] as CodeBuilder;
    if (!column.has(row)) return;
    const system = this.#columns.texts[systemId] as CodeBuilder;
    const masked = this.#masker.mask(this.#dictionary, column.get(row), system.has(row) ? system.get(row) : 0);
    if (masked === 0) column.clear(row);
    else column.set(row, masked);
  }
}

function endOfPath(bytes: Uint8Array, start: number, end: number): number {
  for (let at = start; at < end; at++) if (bytes[at] === 0x3f || bytes[at] === 0x23) return at;
  return end;
}
