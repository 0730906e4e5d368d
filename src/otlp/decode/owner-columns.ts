/** The owner of a row: service, resource and scope. The same columns for spans and logs. */

import type { SegmentBatch } from "../../store/segments/index.ts";
import { CodeBuilder, type ColumnBuilder } from "../columns/column-builders.ts";
import type { ItemOwner } from "./walk-groups.ts";

export type PackedDictionary = () => { bytes: Uint8Array; offsets: Uint32Array };

/** All are dictionary codes: the rows of a request share a few owners. */
export class OwnerColumns {
  readonly #service: CodeBuilder;
  readonly #optional: ReadonlyMap<string, CodeBuilder>;
  readonly #columns: readonly CodeBuilder[];

  constructor(packed: PackedDictionary) {
    this.#service = new CodeBuilder(false, packed);
    const names = [
      "service_version",
      "service_namespace",
      "service_instance",
      "environment",
      "host_name",
      "resource",
      "resource_schema_url",
      "scope_name",
      "scope_version",
      "scope_attributes",
      "scope_schema_url",
    ];
    this.#optional = new Map(names.map((name) => [name, new CodeBuilder(true, packed)]));
    this.#columns = [...this.#optional.values()];
  }

  /** In the order of `names` above. */
  set(row: number, { resource, resourceSchemaUrl, scope, scopeSchemaUrl }: ItemOwner): void {
    this.#service.set(row, resource.service);
    const columns = this.#columns;
    setCode(columns[0], row, resource.serviceVersion);
    setCode(columns[1], row, resource.serviceNamespace);
    setCode(columns[2], row, resource.serviceInstance);
    setCode(columns[3], row, resource.environment);
    setCode(columns[4], row, resource.hostName);
    setCode(columns[5], row, resource.json);
    setCode(columns[6], row, resourceSchemaUrl);
    setCode(columns[7], row, scope.name);
    setCode(columns[8], row, scope.version);
    setCode(columns[9], row, scope.json);
    setCode(columns[10], row, scopeSchemaUrl);
  }

  entries(): (readonly [string, ColumnBuilder])[] {
    return [["service", this.#service], ...this.#optional];
  }
}

/** 0 means none. */
export function setCode(column: CodeBuilder | undefined, row: number, code: number): void {
  if (code !== 0) column?.set(row, code);
}

/** Capacity of the first allocation; later ones double it. */
const initialRows = 1_024;

/** All columns of a batch by name: they grow together. */
export class ColumnSet {
  readonly #columns: ReadonlyMap<string, ColumnBuilder>;
  #capacity = 0;

  constructor(columns: Iterable<readonly [string, ColumnBuilder]>) {
    this.#columns = new Map(columns);
  }

  /** Ensures capacity for row number `row`. */
  ensure(row: number): void {
    if (row < this.#capacity) return;
    this.#capacity = Math.max(initialRows, this.#capacity * 2);
    for (const column of this.#columns.values()) column.grow(this.#capacity);
  }

  /** For the next batch. */
  reset(): void {
    for (const column of this.#columns.values()) column.reset();
  }

  /** Undoes the last row. */
  clear(row: number): void {
    for (const column of this.#columns.values()) column.clear(row);
  }

  finish(rows: number): SegmentBatch {
    this.ensure(rows);
    const columns = [...this.#columns].flatMap(([name, builder]) => {
      const column = builder.finish(rows);
      return column === undefined ? [] : [[name, column] as const];
    });
    return { rows, columns: Object.fromEntries(columns) };
  }
}
