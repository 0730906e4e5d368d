/** The span columns of a growing batch, and the attributes that fill them. */

import { promotedInt, promotedText } from "../../store/signals/index.ts";
import type { ByteDictionary } from "../columns/byte-dictionary.ts";
import {
  CodeBuilder,
  type ColumnBuilder,
  DoubleBuilder,
  FixedBuilder,
  Int32Builder,
  Int64Builder,
  sharedDictionary,
  TextBuilder,
} from "../columns/column-builders.ts";
import { KnownKeys } from "../columns/known-keys.ts";
import { ColumnSet, OwnerColumns } from "./owner-columns.ts";

export type PromotedText = keyof typeof promotedText;
export type PromotedInt = keyof typeof promotedInt;

const textNames = Object.keys(promotedText) as PromotedText[];
const intNames = Object.keys(promotedInt) as PromotedInt[];
/** Ids below are indexes of `textNames`, from here on of `intNames`. */
export const firstIntId = textNames.length;

export const spanKeys = new KnownKeys([
  ...textNames.flatMap((name, id) => promotedText[name].map((key) => [key, id] as const)),
  ...intNames.flatMap((name, index) => promotedInt[name].map((key) => [key, firstIntId + index] as const)),
]);

/** Index of `rpc_status_code` among whole numbers. */
export const rpcStatusIndex = intNames.indexOf("rpc_status_code");

export const textId = (name: PromotedText): number => textNames.indexOf(name);

/** The columns of the `span` signal by name. `texts` and `ints` are the attributes with their own column. */
export class SpanColumns {
  readonly time = new Int64Builder();
  readonly durationNs = new Int64Builder();
  readonly traceId = new FixedBuilder(16, false);
  readonly spanId = new FixedBuilder(8, false);
  readonly parentSpanId = new FixedBuilder(8, true);
  readonly name: CodeBuilder;
  readonly kind: CodeBuilder;
  readonly status: CodeBuilder;
  readonly statusMessage: CodeBuilder;
  readonly traceState: CodeBuilder;
  readonly flags = new Int32Builder(true);
  readonly dropped = new Int32Builder(true);
  readonly attributes = new TextBuilder(512 * 1_024);
  readonly events = new TextBuilder(64 * 1_024);
  readonly links = new TextBuilder(16 * 1_024);
  readonly weight = new DoubleBuilder();
  readonly texts: readonly CodeBuilder[];
  readonly ints: readonly Int32Builder[];
  readonly owner: OwnerColumns;
  readonly set: ColumnSet;

  constructor(dictionary: ByteDictionary) {
    const packed = sharedDictionary(dictionary);
    const required = (): CodeBuilder => new CodeBuilder(false, packed);
    const optional = (): CodeBuilder => new CodeBuilder(true, packed);
    this.name = required();
    this.kind = required();
    this.status = required();
    this.statusMessage = optional();
    this.traceState = optional();
    this.texts = textNames.map(optional);
    this.ints = intNames.map(() => new Int32Builder(true));
    this.owner = new OwnerColumns(packed);
    this.set = new ColumnSet([
      ["time", this.time],
      ...this.owner.entries(),
      ["trace_id", this.traceId],
      ["span_id", this.spanId],
      ["parent_span_id", this.parentSpanId],
      ["name", this.name],
      ["kind", this.kind],
      ["duration_ns", this.durationNs],
      ["status", this.status],
      ["status_message", this.statusMessage],
      ["weight", this.weight],
      ...textNames.map((name, index) => [name, this.texts[index]] as [string, ColumnBuilder]),
      ...intNames.map((name, index) => [name, this.ints[index]] as [string, ColumnBuilder]),
      ["attributes", this.attributes],
      ["events", this.events],
      ["links", this.links],
      ["trace_state", this.traceState],
      ["flags", this.flags],
      ["dropped", this.dropped],
    ]);
  }
}
