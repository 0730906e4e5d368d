/** The attributes of one log record: a JSON object in its row, within limits. */

import type { Int32Builder, TextBuilder } from "../columns/column-builders.ts";
import type { AttributeReader } from "./attribute-reader.ts";

/** Use as `begin`, then `open` and `write` or `drop` for each attribute, then `end`. */
export class ItemAttributes {
  readonly #reader: AttributeReader;
  readonly #column: TextBuilder;
  #objectStart = 0;
  #count = 0;
  #cutBefore = 0;

  constructor(reader: AttributeReader, column: TextBuilder) {
    this.#reader = reader;
    this.#column = column;
  }

  /** Opens the object of the next row. */
  begin(): void {
    this.#objectStart = this.#column.writer.size;
    this.#count = 0;
    this.#cutBefore = this.#reader.cut;
    this.#column.writer.byte(0x7b);
  }

  /** Reads the next attribute, which ends at `end`; the caller then writes it, drops it, or stores it in a column. */
  open(end: number): void {
    this.#count++;
    this.#reader.open(end);
  }

  /** Adds the attribute that was opened to the object. */
  write(): void {
    if (this.#count > this.#reader.maxCount) this.drop();
    else this.#reader.writeTo(this.#column.writer, this.#objectStart);
  }

  drop(): void {
    this.#reader.cut++;
  }

  /** Without any the cell is empty. */
  end(row: number): void {
    const { writer } = this.#column;
    const isEmpty = writer.size === this.#objectStart + 1;
    if (isEmpty) writer.size = this.#objectStart;
    else writer.byte(0x7d);
    this.#column.end(row, !isEmpty);
  }

  /** Values of the record truncated or dropped because of a limit, since `begin`. */
  get cut(): number {
    return this.#reader.cut - this.#cutBefore;
  }
}

/** Records how many values of a record are missing, if any. */
export function setDropped(column: Int32Builder, row: number, count: number): void {
  if (count > 0) column.set(row, Math.min(count, 0x7fff_ffff));
}
