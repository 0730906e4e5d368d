/** OTLP log requests (protobuf) into the columns of the `log` signal. */

import type { SegmentBatch } from "../../store/segments/index.ts";
import { ByteDictionary } from "../columns/byte-dictionary.ts";
import { utf8Cut } from "../columns/byte-writer.ts";
import { CodeBuilder, FixedBuilder, Int32Builder, Int64Builder, sharedDictionary, TextBuilder } from "../columns/column-builders.ts";
import { KnownKeys } from "../columns/known-keys.ts";
import { MalformedError, ProtobufReader } from "../columns/protobuf-reader.ts";
import { microseconds } from "../columns/split-time.ts";
import { type AttributeLimits, AttributeReader, anyValue, defaultAttributeLimits } from "./attribute-reader.ts";
import { ItemAttributes, setDropped } from "./item-attributes.ts";
import { type DecodeCounts, ItemRows } from "./item-rows.ts";
import { ColumnSet, OwnerColumns, setCode } from "./owner-columns.ts";
import { ResourceReader } from "./resource-reader.ts";

/** Names of the six ranges of severity numbers, four numbers each; the first is for number 0. */
const severityTexts = ["", "trace", "debug", "info", "warn", "error", "fatal"] as const;

const logTag = {
  time: 9,
  severityNumber: 16,
  severityText: 26,
  body: 42,
  attribute: 50,
  dropped: 56,
  flags: 69,
  traceId: 74,
  spanId: 82,
  observedTime: 89,
  eventName: 98,
} as const;

/** Of an event name or exception type. Longer ones are cut: they go to the dictionary. */
const maxNameBytes = 1_024;
/** Of a text body. The rest is dropped, and the record counts one dropped value. */
const maxBodyBytes = 64 * 1_024;

/** Numbers of the keys with their own column. */
const exceptionKey = 0;
const eventNameKey = 1;
const logKeys = new KnownKeys([
  ["exception.type", exceptionKey],
  // The attribute for event names before they had a field.
  ["event.name", eventNameKey],
]);

/** The columns of the `log` signal by name. `dropped` counts values that the sender or the limits left out. */
class LogColumns {
  readonly time = new Int64Builder();
  readonly observedTime = new Int64Builder();
  readonly severityNumber = new Int32Builder(false);
  readonly severity: CodeBuilder;
  readonly severityText: CodeBuilder;
  readonly eventName: CodeBuilder;
  readonly exceptionType: CodeBuilder;
  readonly body = new TextBuilder(256 * 1_024);
  readonly attributes = new TextBuilder(128 * 1_024);
  readonly traceId = new FixedBuilder(16, true);
  readonly spanId = new FixedBuilder(8, true);
  readonly flags = new Int32Builder(true);
  readonly dropped = new Int32Builder(true);
  readonly owner: OwnerColumns;
  readonly set: ColumnSet;

  constructor(dictionary: ByteDictionary) {
    const packed = sharedDictionary(dictionary);
    this.severity = new CodeBuilder(false, packed);
    this.severityText = new CodeBuilder(true, packed);
    this.eventName = new CodeBuilder(true, packed);
    this.exceptionType = new CodeBuilder(true, packed);
    this.owner = new OwnerColumns(packed);
    this.set = new ColumnSet([
      ["time", this.time],
      ...this.owner.entries(),
      ["severity", this.severity],
      ["severity_number", this.severityNumber],
      ["severity_text", this.severityText],
      ["body", this.body],
      ["trace_id", this.traceId],
      ["span_id", this.spanId],
      ["event_name", this.eventName],
      ["exception_type", this.exceptionType],
      ["attributes", this.attributes],
      ["observed_time_us", this.observedTime],
      ["flags", this.flags],
      ["dropped", this.dropped],
    ]);
  }
}

/** One per worker. Call `add` for each request, then `finish`; `reset` starts the next batch with the same memory. */
export class LogDecoder {
  readonly #reader = new ProtobufReader();
  readonly #dictionary = new ByteDictionary();
  readonly #attributes: AttributeReader;
  readonly #owners: ResourceReader;
  readonly #columns: LogColumns;
  readonly #rows: ItemRows;
  #severityCodes: number[] = [];
  #lastObservedUs = 0;
  /** Earlier records with the same observed time. */
  #ties = 0;
  // State of the current record.
  readonly #own: ItemAttributes;
  #timeUs = 0;
  #observedUs = 0;
  #severityNumber = 0;
  #hasBody = false;
  /** Attributes that the sender dropped. */
  #dropped = 0;

  constructor(limits: AttributeLimits = defaultAttributeLimits) {
    const [reader, dictionary] = [this.#reader, this.#dictionary];
    const attributes = new AttributeReader(reader, limits, logKeys);
    const owners = new ResourceReader(reader, attributes, dictionary);
    const columns = new LogColumns(dictionary);
    this.#attributes = attributes;
    this.#owners = owners;
    this.#columns = columns;
    this.#own = new ItemAttributes(attributes, columns.attributes);
    const readItem = (row: number, end: number, receivedAtUs: number): void => this.#record(row, end, receivedAtUs);
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
    this.#nameCodes();
  }

  #nameCodes(): void {
    this.#severityCodes = severityTexts.map((text) => this.#dictionary.codeOfText(text));
  }

  #record(row: number, end: number, receivedAtUs: number): void {
    this.#begin();
    this.#fields(row, end);
    if (this.#reader.at > end) throw new MalformedError("a field is longer than the message around it");
    this.#finish(row, receivedAtUs);
  }

  #begin(): void {
    this.#timeUs = 0;
    this.#observedUs = 0;
    this.#severityNumber = 0;
    this.#hasBody = false;
    this.#dropped = 0;
    this.#own.begin();
  }

  #fields(row: number, end: number): void {
    const reader = this.#reader;
    const columns = this.#columns;
    const { view } = reader;
    while (reader.at < end) {
      const tag = reader.tag();
      switch (tag) {
        case logTag.time:
          this.#timeUs = timeAt(view, reader.fixed64(end));
          break;
        case logTag.observedTime:
          this.#observedUs = timeAt(view, reader.fixed64(end));
          break;
        case logTag.severityNumber:
          this.#severityNumber = reader.uint();
          break;
        case logTag.severityText:
          setCode(columns.severityText, row, this.#owners.text(end));
          break;
        case logTag.eventName:
          setCode(columns.eventName, row, this.#owners.text(end));
          break;
        case logTag.body:
          this.#body(reader.end(end));
          break;
        case logTag.attribute:
          this.#attribute(row, reader.end(end));
          break;
        case logTag.dropped:
          this.#dropped = reader.uint();
          break;
        case logTag.flags:
          columns.flags.set(row, view.getInt32(reader.fixed32(end), true));
          break;
        case logTag.traceId:
          this.#id(columns.traceId, row, end);
          break;
        case logTag.spanId:
          this.#id(columns.spanId, row, end);
          break;
        default:
          reader.skip(tag, end);
      }
    }
  }

  /** Needs the whole record: fields arrive in any order. */
  #finish(row: number, receivedAtUs: number): void {
    this.#own.end(row);
    this.#columns.body.end(row, this.#hasBody);
    this.#times(row, this.#timeUs, this.#observedUs || receivedAtUs);
    this.#severity(row, this.#severityNumber);
    setDropped(this.#columns.dropped, row, this.#dropped + this.#own.cut);
  }

  /**
   * A record without a time gets its observed time, or its arrival time. Records with the same observed time are spaced one microsecond
   * apart: lines of a file are read in bulk, have times of whole seconds or none, and must stay in order.
   */
  #times(row: number, timeUs: number, observedUs: number): void {
    const time = timeUs || observedUs;
    this.#ties = observedUs === this.#lastObservedUs ? this.#ties + 1 : 0;
    this.#lastObservedUs = observedUs;
    this.#columns.time.setNumber(row, time);
    this.#columns.observedTime.setNumber(row, observedUs + this.#ties);
  }

  #severity(row: number, sent: number): void {
    const columns = this.#columns;
    const number =
      sent >= 1 && sent <= 24
        ? sent
        : columns.severityText.has(row)
          ? severityOf(this.#dictionary.textOf(columns.severityText.get(row)))
          : 0;
    columns.severityNumber.set(row, number);
    columns.severity.set(row, this.#severityCodes[Math.ceil(number / 4)] as number);
  }

  #id(column: FixedBuilder, row: number, limit: number): void {
    const reader = this.#reader;
    const end = reader.end(limit);
    column.set(row, reader.bytes, reader.at, end);
    reader.at = end;
  }

  /** Text unchanged, anything else as JSON. */
  #body(end: number): void {
    const reader = this.#reader;
    const attributes = this.#attributes;
    const out = this.#columns.body.writer;
    if (this.#hasBody) throw new MalformedError("a record has two bodies");
    this.#hasBody = true;
    attributes.openValue(reader.at, end);
    const { valueStart, valueEnd } = attributes;
    if (attributes.valueKind === anyValue.string) {
      const cut = utf8Cut(reader.bytes, valueStart, valueEnd, maxBodyBytes);
      if (cut < valueEnd) attributes.cut++;
      out.utf8(reader.bytes, valueStart, cut);
    } else {
      attributes.writeValue(out);
    }
    reader.at = end;
  }

  #attribute(row: number, end: number): void {
    const attributes = this.#attributes;
    const columns = this.#columns;
    this.#own.open(end);
    const known = attributes.keyId;
    const column = known === exceptionKey ? columns.exceptionType : known === eventNameKey ? columns.eventName : undefined;
    if (column === undefined || attributes.valueKind !== anyValue.string || column.has(row)) {
      this.#own.write();
    } else {
      const { valueStart, valueEnd } = attributes;
      const { bytes } = this.#reader;
      column.set(row, this.#dictionary.codeOf(this.#reader, valueStart, utf8Cut(bytes, valueStart, valueEnd, maxNameBytes)));
    }
    this.#reader.at = end;
  }
}

function timeAt(view: DataView, at: number): number {
  return microseconds(view.getUint32(at, true), view.getUint32(at + 4, true));
}

/** For senders that set only the severity text. */
function severityOf(text: string): number {
  const index = severityTexts.findIndex((name) => name !== "" && text.toLowerCase().startsWith(name));
  if (index > 0) return index * 4 - 3;
  return /^(?:crit|emerg|alert|panic)/i.test(text) ? 21 : /^(?:notice)/i.test(text) ? 10 : /^(?:verbose)/i.test(text) ? 1 : 0;
}
