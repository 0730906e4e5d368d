/** The decoder part shared by spans and log records: requests in, a batch of rows out; malformed items are dropped and counted. */

import type { SegmentBatch } from "../../store/segments/index.ts";
import type { ByteDictionary } from "../columns/byte-dictionary.ts";
import { MalformedError, type ProtobufReader, RejectedError } from "../columns/protobuf-reader.ts";
import type { AttributeReader } from "./attribute-reader.ts";
import type { ColumnSet, OwnerColumns } from "./owner-columns.ts";
import type { ResourceReader } from "./resource-reader.ts";
import { type ItemOwner, walkGroups } from "./walk-groups.ts";

/** Since the last `reset`. */
export interface DecodeCounts {
  rows: number;
  /** Malformed rows; a malformed group counts as one. */
  malformed: number;
  /** The malformed rows that the reply to the sender has already reported. */
  rejected: number;
  /** Values truncated or dropped because of a limit. */
  cut: number;
}

export interface ItemRowsOptions {
  reader: ProtobufReader;
  owners: ResourceReader;
  attributes: AttributeReader;
  dictionary: ByteDictionary;
  columns: { set: ColumnSet; owner: OwnerColumns };
  /** Writes the item between the reader's position and `end` to a row; throws MalformedError if it is not one. */
  readItem: (row: number, end: number, receivedAtUs: number) => void;
}

/** Fills the columns of one batch. A row that fails halfway is cleared in all columns, and the next item reuses it. */
export class ItemRows {
  readonly #options: ItemRowsOptions;
  readonly #visitor = (end: number, owner: ItemOwner): void => this.#visit(end, owner);
  #receivedAtUs = 0;
  #rows = 0;
  #malformed = 0;
  #rejected = 0;

  constructor(options: ItemRowsOptions) {
    this.#options = options;
  }

  get counts(): DecodeCounts {
    return { rows: this.#rows, malformed: this.#malformed, rejected: this.#rejected, cut: this.#options.attributes.cut };
  }

  /** Adds the items of a request. A malformed item is dropped and counted; so is the rest of a truncated body. */
  add(body: Uint8Array, receivedAtUs: number): void {
    const { reader, owners } = this.#options;
    this.#receivedAtUs = receivedAtUs;
    const unread = walkGroups(reader, owners, body, this.#visitor);
    this.#malformed += unread;
  }

  /** Call after the last request. The batch is valid until `reset`. */
  finish(): SegmentBatch {
    return this.#options.columns.set.finish(this.#rows);
  }

  /** Starts the next batch, reusing the memory of this one. */
  reset(): void {
    const { dictionary, columns, attributes } = this.#options;
    dictionary.reset();
    columns.set.reset();
    attributes.cut = 0;
    this.#rows = 0;
    this.#malformed = 0;
    this.#rejected = 0;
  }

  #visit(end: number, owner: ItemOwner): void {
    const { columns, readItem } = this.#options;
    const row = this.#rows;
    try {
      columns.set.ensure(row);
      readItem(row, end, this.#receivedAtUs);
      columns.owner.set(row, owner);
      this.#rows++;
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error;
      columns.set.clear(row);
      this.#malformed++;
      if (error instanceof RejectedError) this.#rejected++;
    }
  }
}
