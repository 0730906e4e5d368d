/** Reads DuckDB vectors as JSON values, one row at a time and only up to a byte budget, so that no result can exhaust the heap. */

import duckdb from "@duckdb/node-bindings";
import { CoralError } from "../../../base/errors.ts";

/** Limit on the JSON size of the rows in one answer. */
export class ByteBudget {
  #leftBytes: number;

  constructor(bytes: number) {
    this.#leftBytes = bytes;
  }

  take(bytes: number): void {
    this.#leftBytes -= bytes;
    if (this.#leftBytes < 0) throw new BudgetSpent();
  }
}

/** The current row exceeds the budget. */
export class BudgetSpent extends Error {}

export type JsonReader = (index: number) => unknown;

/** Vectors are copied out of DuckDB as a whole; larger ones are not touched. */
const vectorMaxBytes = 64 * 1024 ** 2;
const utf8 = new TextDecoder("utf-8");

/** Reads rows of a vector. The chunk that owns it must stay referenced while the reader is in use. */
export function jsonReader(vector: duckdb.Vector, count: number, budget: ByteBudget): JsonReader {
  const type = duckdb.vector_get_column_type(vector);
  const validity = duckdb.vector_get_validity(vector, Math.ceil(count / 64) * 8) as Uint8Array | null;
  const read = new VectorReader(vector, type, count, budget).reader();
  return (index) => {
    budget.take(4);
    const isValid = validity === null || (((validity[index >> 3] ?? 0) >> (index & 7)) & 1) === 1;
    return isValid ? read(index) : null;
  };
}

class VectorReader {
  readonly #vector: duckdb.Vector;
  readonly #type: duckdb.LogicalType;
  readonly #count: number;
  readonly #budget: ByteBudget;

  constructor(vector: duckdb.Vector, type: duckdb.LogicalType, count: number, budget: ByteBudget) {
    this.#vector = vector;
    this.#type = type;
    this.#count = count;
    this.#budget = budget;
  }

  reader(): JsonReader {
    const { Type } = duckdb;
    const id = duckdb.get_type_id(this.#type);
    switch (id) {
      case Type.LIST:
        return this.#list();
      case Type.MAP:
        return this.#map();
      case Type.ARRAY:
        return this.#array();
      case Type.STRUCT:
        return this.#struct();
      case Type.VARCHAR:
        return this.#bytes((bytes) => utf8.decode(bytes), 1);
      case Type.BLOB:
        return this.#bytes((bytes) => Buffer.from(bytes).toString("hex"), 2);
      case Type.ENUM:
        return this.#enum();
      case Type.DECIMAL:
        return this.#decimal();
      case Type.SQLNULL:
        return () => null;
      default:
        return this.#fixed(id);
    }
  }

  #data(widthBytes: number): DataView {
    if (this.#count * widthBytes > vectorMaxBytes) throw new BudgetSpent();
    const bytes = duckdb.vector_get_data(this.#vector, this.#count * widthBytes);
    return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  #fixed(id: duckdb.Type): JsonReader {
    const fixed = fixedReaders[id];
    if (!fixed) {
      const name = duckdb.Type[id] ?? String(id);
      throw new CoralError({ code: "unsupported", message: `Cannot return a column of type ${name}: cast it to VARCHAR` });
    }
    const data = this.#data(fixed.widthBytes);
    return (index) => {
      this.#budget.take(fixed.jsonBytes);
      return fixed.read(data, index * fixed.widthBytes);
    };
  }

  /** Up to 12 bytes are inline, longer values behind a pointer. */
  #bytes(convert: (bytes: Uint8Array) => string, jsonBytesPerByte: number): JsonReader {
    const data = this.#data(16);
    return (index) => {
      const lengthBytes = data.getUint32(index * 16, true);
      this.#budget.take(lengthBytes * jsonBytesPerByte);
      if (lengthBytes <= 12) return convert(new Uint8Array(data.buffer, data.byteOffset + index * 16 + 4, lengthBytes));
      return convert(duckdb.get_data_from_pointer(data.buffer as ArrayBuffer, data.byteOffset + index * 16 + 8, lengthBytes));
    };
  }

  #children(vector: duckdb.Vector, count: number): JsonReader {
    // Created on first use: the children of a long list are only copied if the list is within the budget.
    let reader: JsonReader | undefined;
    return (index) => {
      reader ??= jsonReader(vector, count, this.#budget);
      return reader(index);
    };
  }

  #list(): JsonReader {
    const entries = this.#data(16);
    const child = this.#children(duckdb.list_vector_get_child(this.#vector), duckdb.list_vector_get_size(this.#vector));
    return (index) => {
      const start = Number(entries.getBigUint64(index * 16, true));
      const length = Number(entries.getBigUint64(index * 16 + 8, true));
      this.#budget.take(length);
      return Array.from({ length }, (_, offset) => child(start + offset));
    };
  }

  /** An object if the keys are texts, else a list of pairs. */
  #map(): JsonReader {
    const list = this.#list();
    const isText = duckdb.get_type_id(duckdb.map_type_key_type(this.#type)) === duckdb.Type.VARCHAR;
    return (index) => {
      const pairs = (list(index) as { key: unknown; value: unknown }[]).map(({ key, value }): [unknown, unknown] => [key, value]);
      return isText ? Object.fromEntries(pairs) : pairs;
    };
  }

  #array(): JsonReader {
    const size = duckdb.array_type_array_size(this.#type);
    const child = this.#children(duckdb.array_vector_get_child(this.#vector), this.#count * size);
    return (index) => Array.from({ length: size }, (_, offset) => child(index * size + offset));
  }

  #struct(): JsonReader {
    const fields = Array.from({ length: duckdb.struct_type_child_count(this.#type) }, (_, field) => ({
      name: duckdb.struct_type_child_name(this.#type, field),
      read: this.#children(duckdb.struct_vector_get_child(this.#vector, field), this.#count),
    }));
    return (index) => {
      for (const { name } of fields) this.#budget.take(name.length + 4);
      return Object.fromEntries(fields.map(({ name, read }) => [name, read(index)]));
    };
  }

  #enum(): JsonReader {
    const names = Array.from({ length: duckdb.enum_dictionary_size(this.#type) }, (_, index) =>
      duckdb.enum_dictionary_value(this.#type, index),
    );
    const code = fixedReaders[duckdb.enum_internal_type(this.#type)];
    if (!code) throw new CoralError({ code: "internal", message: "Cannot read an enum: unknown storage type" });
    const data = this.#data(code.widthBytes);
    return (index) => {
      const name = names[Number(code.read(data, index * code.widthBytes))] ?? null;
      this.#budget.take(name?.length ?? 0);
      return name;
    };
  }

  /** A number for up to 15 digits, else exact text. */
  #decimal(): JsonReader {
    const scale = duckdb.decimal_scale(this.#type);
    const isExact = duckdb.decimal_width(this.#type) <= 15;
    const raw = rawInteger(duckdb.decimal_internal_type(this.#type));
    const data = this.#data(raw.widthBytes);
    return (index) => {
      this.#budget.take(16);
      const text = decimalText(raw.read(data, index * raw.widthBytes), scale);
      return isExact ? Number(text) : text;
    };
  }
}

interface FixedReader {
  widthBytes: number;
  /** Approximate size of one value as JSON. */
  jsonBytes: number;
  read: (data: DataView, at: number) => unknown;
}

const { Type } = duckdb;

const integer = (value: bigint): number | string =>
  value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value.toString();
const float = (value: number): number | string | null =>
  Number.isFinite(value) ? value : Number.isNaN(value) ? null : value > 0 ? "Infinity" : "-Infinity";
const int128 = (data: DataView, at: number): bigint => (data.getBigInt64(at + 8, true) << 64n) | data.getBigUint64(at, true);
const int64 = (data: DataView, at: number): bigint => data.getBigInt64(at, true);
const fixed = (widthBytes: number, jsonBytes: number, read: FixedReader["read"]): FixedReader => ({ widthBytes, jsonBytes, read });

const fixedReaders: Partial<Record<duckdb.Type, FixedReader>> = {
  [Type.BOOLEAN]: fixed(1, 5, (data, at) => data.getUint8(at) !== 0),
  [Type.TINYINT]: fixed(1, 4, (data, at) => data.getInt8(at)),
  [Type.UTINYINT]: fixed(1, 3, (data, at) => data.getUint8(at)),
  [Type.SMALLINT]: fixed(2, 6, (data, at) => data.getInt16(at, true)),
  [Type.USMALLINT]: fixed(2, 5, (data, at) => data.getUint16(at, true)),
  [Type.INTEGER]: fixed(4, 8, (data, at) => data.getInt32(at, true)),
  [Type.UINTEGER]: fixed(4, 8, (data, at) => data.getUint32(at, true)),
  [Type.BIGINT]: fixed(8, 12, (data, at) => integer(int64(data, at))),
  [Type.UBIGINT]: fixed(8, 12, (data, at) => integer(data.getBigUint64(at, true))),
  [Type.HUGEINT]: fixed(16, 16, (data, at) => integer(int128(data, at))),
  [Type.UHUGEINT]: fixed(16, 16, (data, at) => integer(BigInt.asUintN(128, int128(data, at)))),
  [Type.FLOAT]: fixed(4, 12, (data, at) => float(data.getFloat32(at, true))),
  [Type.DOUBLE]: fixed(8, 18, (data, at) => float(data.getFloat64(at, true))),
  [Type.TIMESTAMP]: fixed(8, 28, (data, at) => isoTime(int64(data, at), 6)),
  [Type.TIMESTAMP_TZ]: fixed(8, 28, (data, at) => isoTime(int64(data, at), 6)),
  [Type.TIMESTAMP_S]: fixed(8, 28, (data, at) => isoTime(int64(data, at), 0)),
  [Type.TIMESTAMP_MS]: fixed(8, 28, (data, at) => isoTime(int64(data, at), 3)),
  [Type.TIMESTAMP_NS]: fixed(8, 32, (data, at) => isoTime(int64(data, at), 9)),
  [Type.DATE]: fixed(4, 12, (data, at) => isoDate(data.getInt32(at, true))),
  [Type.TIME]: fixed(8, 17, (data, at) => timeText(int64(data, at))),
  [Type.INTERVAL]: fixed(16, 16, (data, at) => isoDuration(data.getInt32(at, true), data.getInt32(at + 4, true), int64(data, at + 8))),
  [Type.UUID]: fixed(16, 38, (data, at) => uuidText(BigInt.asUintN(128, int128(data, at)) ^ (1n << 127n))),
};

function rawInteger(id: duckdb.Type): { widthBytes: number; read: (data: DataView, at: number) => bigint } {
  switch (id) {
    case Type.SMALLINT:
      return { widthBytes: 2, read: (data, at) => BigInt(data.getInt16(at, true)) };
    case Type.INTEGER:
      return { widthBytes: 4, read: (data, at) => BigInt(data.getInt32(at, true)) };
    case Type.BIGINT:
      return { widthBytes: 8, read: int64 };
    default:
      return { widthBytes: 16, read: int128 };
  }
}

function decimalText(value: bigint, scale: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(scale + 1, "0");
  const sign = value < 0n ? "-" : "";
  return scale === 0 ? sign + digits : `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

const infinity = 2n ** 63n - 1n;

/** `value` counts units of 10^-digits seconds. Milliseconds are always shown, finer digits only if they are not zero. */
function isoTime(value: bigint, digits: number): string {
  if (value === infinity) return "infinity";
  if (value === -infinity) return "-infinity";
  const perMs = 10n ** BigInt(Math.max(0, digits - 3));
  const inMs = digits < 3 ? value * 10n ** BigInt(3 - digits) : (value - mod(value, perMs)) / perMs;
  const date = new Date(Number(inMs));
  if (Number.isNaN(date.getTime())) return `${inMs} ms since 1970`;
  const rest = digits > 3 ? mod(value, perMs) : 0n;
  const iso = date.toISOString();
  return rest === 0n ? iso : `${iso.slice(0, -1)}${rest.toString().padStart(digits - 3, "0")}Z`;
}

function mod(value: bigint, divisor: bigint): bigint {
  return ((value % divisor) + divisor) % divisor;
}

function isoDate(days: number): string {
  const date = new Date(days * 86_400_000);
  return Number.isNaN(date.getTime()) ? (days > 0 ? "infinity" : "-infinity") : date.toISOString().slice(0, 10);
}

function timeText(micros: bigint): string {
  const text = new Date(Number(micros / 1_000n)).toISOString().slice(11, -1);
  return `${text}${(micros % 1_000n).toString().padStart(3, "0")}`;
}

function isoDuration(months: number, days: number, micros: bigint): string {
  const date = `${months === 0 ? "" : `${months}M`}${days === 0 ? "" : `${days}D`}`;
  const time = micros === 0n ? "" : `T${decimalText(micros, 6).replace(/\.?0+$/, "")}S`;
  return date === "" && time === "" ? "PT0S" : `P${date}${time}`;
}

function uuidText(value: bigint): string {
  const hex = value.toString(16).padStart(32, "0");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
