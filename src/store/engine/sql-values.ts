import duckdb from "@duckdb/node-bindings";
import { CoralError } from "../../base/errors.ts";

/** A value as queries return it: bigint only where a number would lose digits; times as microseconds since 1970. */
export type SqlValue = string | number | bigint | boolean | null | Uint8Array | SqlValue[] | { [key: string]: SqlValue };
export type Row = Record<string, SqlValue>;
/** A value that can be bound to `?` or `$name`. Bind times as microseconds and convert them with `make_timestamp(?)`. */
export type SqlParameter = string | number | bigint | boolean | null | Uint8Array;
export type SqlParameters = readonly SqlParameter[] | Readonly<Record<string, SqlParameter>>;

export function numberOrBigint(value: bigint): number | bigint {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

export function bindParameters(statement: duckdb.PreparedStatement, parameters: SqlParameters): void {
  const entries: [number, SqlParameter][] = Array.isArray(parameters)
    ? (parameters as readonly SqlParameter[]).map((value, index) => [index + 1, value])
    : Object.entries(parameters as Record<string, SqlParameter>).map(([name, value]) => [
        duckdb.bind_parameter_index(statement, name),
        value,
      ]);
  for (const [index, value] of entries) bindParameter(statement, index, value);
}

function bindParameter(statement: duckdb.PreparedStatement, index: number, value: SqlParameter): void {
  if (value === null) duckdb.bind_null(statement, index);
  else if (typeof value === "string") duckdb.bind_varchar(statement, index, value);
  else if (typeof value === "boolean") duckdb.bind_boolean(statement, index, value);
  else if (value instanceof Uint8Array) duckdb.bind_blob(statement, index, value);
  else if (typeof value === "bigint") duckdb.bind_int64(statement, index, value);
  else if (Number.isSafeInteger(value)) duckdb.bind_int64(statement, index, BigInt(value));
  else duckdb.bind_double(statement, index, value);
}

/** Bytes of row `index` in a vector of DuckDB's 16-byte strings: up to 12 bytes inline, longer ones behind a pointer. */
function stringBytes(strings: Uint8Array, view: DataView, index: number): Uint8Array {
  const lengthBytes = view.getUint32(index * 16, true);
  if (lengthBytes <= 12) return strings.subarray(index * 16 + 4, index * 16 + 4 + lengthBytes);
  return duckdb.get_data_from_pointer(strings.buffer as ArrayBuffer, strings.byteOffset + index * 16 + 8, lengthBytes);
}

/** A DuckDB string, which is valid UTF-8. A decoder and a view per value would cost several times as much. */
function textAt(strings: Buffer, view: DataView, index: number): string {
  const lengthBytes = view.getUint32(index * 16, true);
  if (lengthBytes <= 12) return strings.toString("utf8", index * 16 + 4, index * 16 + 4 + lengthBytes);
  const long = duckdb.get_data_from_pointer(strings.buffer as ArrayBuffer, strings.byteOffset + index * 16 + 8, lengthBytes);
  return Buffer.from(long.buffer, long.byteOffset, lengthBytes).toString("utf8");
}

type Reader = (index: number) => SqlValue;

/** A vector to read: its type, length, and its bytes if values have a fixed width. */
interface Source {
  vector: duckdb.Vector;
  logicalType: duckdb.LogicalType;
  count: number;
  bytesOf: (widthBytes: number) => { bytes: Uint8Array; view: DataView };
}

/** Reads `count` values. The chunk that owns the vector must stay referenced until this returns. */
export function readVector(vector: duckdb.Vector, count: number): SqlValue[] {
  if (count === 0) return [];
  const logicalType = duckdb.vector_get_column_type(vector);
  const bytesOf = (widthBytes: number): ReturnType<Source["bytesOf"]> => {
    const bytes = duckdb.vector_get_data(vector, count * widthBytes);
    return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
  };
  const read = readerOf({ vector, logicalType, count, bytesOf });
  const validity = duckdb.vector_get_validity(vector, Math.ceil(count / 64) * 8) as Uint8Array | null;
  const values: SqlValue[] = [];
  for (let index = 0; index < count; index++) {
    const valid = validity === null || (((validity[index >> 3] ?? 0) >> (index & 7)) & 1) === 1;
    values.push(valid ? read(index) : null);
  }
  return values;
}

const twoTo32 = 2 ** 32;
/** Upper 32 bits of 2^53: integers below it are exact as numbers. */
const safeUpper = 2 ** 21;

/** Avoids a bigint: most counts and times are small, and columns are long. */
function int64(view: DataView, at: number): number | bigint {
  const upper = view.getInt32(at + 4, true);
  if (upper >= -safeUpper && upper < safeUpper) {
    const value = upper * twoTo32 + view.getUint32(at, true);
    if (value >= Number.MIN_SAFE_INTEGER) return value;
  }
  return view.getBigInt64(at, true);
}

function uint64(view: DataView, at: number): number | bigint {
  const upper = view.getUint32(at + 4, true);
  return upper < safeUpper ? upper * twoTo32 + view.getUint32(at, true) : view.getBigUint64(at, true);
}

const int128 = (view: DataView, at: number): bigint => (view.getBigInt64(at + 8, true) << 64n) | view.getBigUint64(at, true);

/** Types whose values are stored inline in the vector: width in bytes, and the reader. */
const plainTypes: Partial<Record<keyof typeof duckdb.Type, [number, (view: DataView, at: number) => SqlValue]>> = {
  BOOLEAN: [1, (view, at) => view.getUint8(at) !== 0],
  TINYINT: [1, (view, at) => view.getInt8(at)],
  UTINYINT: [1, (view, at) => view.getUint8(at)],
  SMALLINT: [2, (view, at) => view.getInt16(at, true)],
  USMALLINT: [2, (view, at) => view.getUint16(at, true)],
  INTEGER: [4, (view, at) => view.getInt32(at, true)],
  UINTEGER: [4, (view, at) => view.getUint32(at, true)],
  FLOAT: [4, (view, at) => view.getFloat32(at, true)],
  DOUBLE: [8, (view, at) => view.getFloat64(at, true)],
  BIGINT: [8, int64],
  UBIGINT: [8, uint64],
  HUGEINT: [16, (view, at) => numberOrBigint(int128(view, at))],
  UHUGEINT: [16, (view, at) => numberOrBigint(BigInt.asUintN(128, int128(view, at)))],
  TIMESTAMP: [8, int64],
  TIMESTAMP_TZ: [8, int64],
  TIMESTAMP_S: [8, (view, at) => numberOrBigint(view.getBigInt64(at, true) * 1_000_000n)],
  TIMESTAMP_MS: [8, (view, at) => numberOrBigint(view.getBigInt64(at, true) * 1_000n)],
  TIMESTAMP_NS: [8, (view, at) => numberOrBigint(view.getBigInt64(at, true) / 1_000n)],
  DATE: [4, (view, at) => formatDate(view.getInt32(at, true))],
  TIME: [8, (view, at) => formatTime(view.getBigInt64(at, true))],
  // DuckDB flips the sign bit, so that ids sort like text.
  UUID: [16, (view, at) => formatUuid(BigInt.asUintN(128, int128(view, at)) ^ (1n << 127n))],
  INTERVAL: [
    16,
    (view, at) => ({
      months: view.getInt32(at, true),
      days: view.getInt32(at + 4, true),
      micros: numberOrBigint(view.getBigInt64(at + 8, true)),
    }),
  ],
};

function readerOf(source: Source): Reader {
  const type = duckdb.Type[duckdb.get_type_id(source.logicalType)] as keyof typeof duckdb.Type;
  const plain = plainTypes[type];
  if (plain) {
    const [widthBytes, read] = plain;
    const { view } = source.bytesOf(widthBytes);
    return (index) => read(view, index * widthBytes);
  }
  switch (type) {
    case "VARCHAR": {
      const { bytes, view } = source.bytesOf(16);
      const strings = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return (index) => textAt(strings, view, index);
    }
    case "BLOB": {
      const { bytes, view } = source.bytesOf(16);
      return (index) => Uint8Array.from(stringBytes(bytes, view, index));
    }
    case "DECIMAL":
      return decimalReader(source);
    case "ENUM":
      return enumReader(source);
    // A map is stored as a list of { key, value }.
    case "LIST":
    case "MAP":
      return listReader(source);
    case "ARRAY": {
      const size = duckdb.array_type_array_size(source.logicalType);
      const children = readVector(duckdb.array_vector_get_child(source.vector), source.count * size);
      return (index) => children.slice(index * size, (index + 1) * size);
    }
    case "STRUCT":
      return structReader(source);
    case "SQLNULL":
      return () => null;
    default:
      throw new CoralError({ code: "unsupported", message: `Cannot read a column of type ${type}: cast it to VARCHAR in the query` });
  }
}

function listReader({ vector, bytesOf }: Source): Reader {
  const { view } = bytesOf(16);
  const children = readVector(duckdb.list_vector_get_child(vector), duckdb.list_vector_get_size(vector));
  return (index) => {
    const start = Number(view.getBigUint64(index * 16, true));
    return children.slice(start, start + Number(view.getBigUint64(index * 16 + 8, true)));
  };
}

function structReader({ vector, logicalType, count }: Source): Reader {
  const fields = Array.from({ length: duckdb.struct_type_child_count(logicalType) }, (_, field) => ({
    name: duckdb.struct_type_child_name(logicalType, field),
    values: readVector(duckdb.struct_vector_get_child(vector, field), count),
  }));
  return (index) => Object.fromEntries(fields.map(({ name, values }) => [name, values[index] ?? null]));
}

function decimalReader({ logicalType, bytesOf }: Source): Reader {
  const divisor = 10 ** duckdb.decimal_scale(logicalType);
  const stored = duckdb.Type[duckdb.decimal_internal_type(logicalType)] as keyof typeof duckdb.Type;
  const [widthBytes, read] = plainTypes[stored] ?? [16, int128];
  const { view } = bytesOf(widthBytes);
  return (index) => Number(read(view, index * widthBytes)) / divisor;
}

function enumReader({ logicalType, bytesOf }: Source): Reader {
  const names = Array.from({ length: duckdb.enum_dictionary_size(logicalType) }, (_, index) =>
    duckdb.enum_dictionary_value(logicalType, index),
  );
  const stored = duckdb.Type[duckdb.enum_internal_type(logicalType)] as keyof typeof duckdb.Type;
  const [widthBytes, read] = plainTypes[stored] ?? [4, (view: DataView, at: number) => view.getUint32(at, true)];
  const { view } = bytesOf(widthBytes);
  return (index) => names[Number(read(view, index * widthBytes))] ?? null;
}

function formatUuid(value: bigint): string {
  const hex = value.toString(16).padStart(32, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

function formatDate(days: number): string {
  const date = new Date(days * 86_400_000);
  return Number.isNaN(date.getTime()) ? String(days) : date.toISOString().slice(0, 10);
}

function formatTime(micros: bigint): string {
  const seconds = Number(micros / 1_000_000n);
  const two = (value: number): string => String(value).padStart(2, "0");
  const fraction = String(micros % 1_000_000n).padStart(6, "0");
  return `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}.${fraction}`;
}
