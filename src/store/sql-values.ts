import duckdb from "@duckdb/node-bindings";
import { CoralError } from "../base/errors.ts";

/** A value as queries return it: bigint only where a number would lose digits, times as microseconds since 1970. */
export type SqlValue = string | number | bigint | boolean | null | Uint8Array | SqlValue[] | { [key: string]: SqlValue };
export type Row = Record<string, SqlValue>;
/** What a `?` or `$name` may be bound to. Times are bound as `make_timestamp(?)` of microseconds. */
export type SqlParameter = string | number | bigint | boolean | null;
export type SqlParameters = readonly SqlParameter[] | Readonly<Record<string, SqlParameter>>;

const utf8 = new TextDecoder("utf-8");

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

type Reader = (index: number) => SqlValue;

/** Reads `count` values. The chunk that owns the vector must stay referenced until this returns. */
export function readVector(vector: duckdb.Vector, count: number): SqlValue[] {
  if (count === 0) return [];
  const read = readerOf(vector, duckdb.vector_get_column_type(vector), count);
  const validity = duckdb.vector_get_validity(vector, Math.ceil(count / 64) * 8) as Uint8Array | null;
  const values: SqlValue[] = [];
  for (let index = 0; index < count; index++) {
    const valid = validity === null || (((validity[index >> 3] ?? 0) >> (index & 7)) & 1) === 1;
    values.push(valid ? read(index) : null);
  }
  return values;
}

function readerOf(vector: duckdb.Vector, logicalType: duckdb.LogicalType, count: number): Reader {
  const { Type } = duckdb;
  const type = duckdb.get_type_id(logicalType);
  const bytesOf = (widthBytes: number): [Uint8Array, DataView] => {
    const bytes = duckdb.vector_get_data(vector, count * widthBytes);
    return [bytes, new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)];
  };
  const view = (widthBytes: number): DataView => bytesOf(widthBytes)[1];
  const int64 = (scale: (value: bigint) => bigint = (value) => value): Reader => {
    const data = view(8);
    return (index) => numberOrBigint(scale(data.getBigInt64(index * 8, true)));
  };
  switch (type) {
    case Type.BOOLEAN: {
      const data = view(1);
      return (index) => data.getUint8(index) !== 0;
    }
    case Type.TINYINT: {
      const data = view(1);
      return (index) => data.getInt8(index);
    }
    case Type.UTINYINT: {
      const data = view(1);
      return (index) => data.getUint8(index);
    }
    case Type.SMALLINT: {
      const data = view(2);
      return (index) => data.getInt16(index * 2, true);
    }
    case Type.USMALLINT: {
      const data = view(2);
      return (index) => data.getUint16(index * 2, true);
    }
    case Type.INTEGER: {
      const data = view(4);
      return (index) => data.getInt32(index * 4, true);
    }
    case Type.UINTEGER: {
      const data = view(4);
      return (index) => data.getUint32(index * 4, true);
    }
    case Type.FLOAT: {
      const data = view(4);
      return (index) => data.getFloat32(index * 4, true);
    }
    case Type.DOUBLE: {
      const data = view(8);
      return (index) => data.getFloat64(index * 8, true);
    }
    case Type.UBIGINT: {
      const data = view(8);
      return (index) => numberOrBigint(data.getBigUint64(index * 8, true));
    }
    case Type.BIGINT:
    case Type.TIMESTAMP:
    case Type.TIMESTAMP_TZ:
      return int64();
    case Type.TIMESTAMP_S:
      return int64((value) => value * 1_000_000n);
    case Type.TIMESTAMP_MS:
      return int64((value) => value * 1_000n);
    case Type.TIMESTAMP_NS:
      return int64((value) => value / 1_000n);
    default:
      return wideReaderOf(vector, logicalType, type, count, bytesOf);
  }
}

function wideReaderOf(
  vector: duckdb.Vector,
  logicalType: duckdb.LogicalType,
  type: duckdb.Type,
  count: number,
  bytesOf: (widthBytes: number) => [Uint8Array, DataView],
): Reader {
  const { Type } = duckdb;
  const int128 = (data: DataView, index: number): bigint =>
    (data.getBigInt64(index * 16 + 8, true) << 64n) | data.getBigUint64(index * 16, true);
  switch (type) {
    case Type.VARCHAR: {
      const [bytes, data] = bytesOf(16);
      return (index) => utf8.decode(stringBytes(bytes, data, index));
    }
    case Type.BLOB: {
      const [bytes, data] = bytesOf(16);
      return (index) => Uint8Array.from(stringBytes(bytes, data, index));
    }
    case Type.HUGEINT: {
      const [, data] = bytesOf(16);
      return (index) => numberOrBigint(int128(data, index));
    }
    case Type.UHUGEINT: {
      const [, data] = bytesOf(16);
      return (index) => numberOrBigint(BigInt.asUintN(128, int128(data, index)));
    }
    case Type.UUID: {
      const [, data] = bytesOf(16);
      return (index) => formatUuid(BigInt.asUintN(128, int128(data, index)) ^ (1n << 127n));
    }
    case Type.DATE: {
      const [, data] = bytesOf(4);
      return (index) => formatDate(data.getInt32(index * 4, true));
    }
    case Type.TIME: {
      const [, data] = bytesOf(8);
      return (index) => formatTime(data.getBigInt64(index * 8, true));
    }
    case Type.INTERVAL: {
      const [, data] = bytesOf(16);
      return (index) => ({
        months: data.getInt32(index * 16, true),
        days: data.getInt32(index * 16 + 4, true),
        micros: numberOrBigint(data.getBigInt64(index * 16 + 8, true)),
      });
    }
    case Type.DECIMAL:
      return decimalReader(logicalType, bytesOf);
    case Type.ENUM:
      return enumReader(logicalType, bytesOf);
    case Type.LIST: {
      const [, data] = bytesOf(16);
      const children = readVector(duckdb.list_vector_get_child(vector), duckdb.list_vector_get_size(vector));
      return (index) => {
        const start = Number(data.getBigUint64(index * 16, true));
        return children.slice(start, start + Number(data.getBigUint64(index * 16 + 8, true)));
      };
    }
    case Type.ARRAY: {
      const size = duckdb.array_type_array_size(logicalType);
      const children = readVector(duckdb.array_vector_get_child(vector), count * size);
      return (index) => children.slice(index * size, (index + 1) * size);
    }
    case Type.STRUCT: {
      const fields = Array.from({ length: duckdb.struct_type_child_count(logicalType) }, (_, field) => ({
        name: duckdb.struct_type_child_name(logicalType, field),
        values: readVector(duckdb.struct_vector_get_child(vector, field), count),
      }));
      return (index) => Object.fromEntries(fields.map(({ name, values }) => [name, values[index] ?? null]));
    }
    case Type.MAP: {
      const [, data] = bytesOf(16);
      // A map is a list of { key, value }.
      const pairs = readVector(duckdb.list_vector_get_child(vector), duckdb.list_vector_get_size(vector));
      return (index) => {
        const start = Number(data.getBigUint64(index * 16, true));
        return pairs.slice(start, start + Number(data.getBigUint64(index * 16 + 8, true)));
      };
    }
    case Type.SQLNULL:
      return () => null;
    default:
      throw new CoralError({
        code: "unsupported",
        message: `Cannot read a column of type ${Type[type] ?? type}: cast it to VARCHAR in the query`,
      });
  }
}

function decimalReader(logicalType: duckdb.LogicalType, bytesOf: (widthBytes: number) => [Uint8Array, DataView]): Reader {
  const { Type } = duckdb;
  const divisor = 10 ** duckdb.decimal_scale(logicalType);
  switch (duckdb.decimal_internal_type(logicalType)) {
    case Type.SMALLINT: {
      const [, data] = bytesOf(2);
      return (index) => data.getInt16(index * 2, true) / divisor;
    }
    case Type.INTEGER: {
      const [, data] = bytesOf(4);
      return (index) => data.getInt32(index * 4, true) / divisor;
    }
    case Type.BIGINT: {
      const [, data] = bytesOf(8);
      return (index) => Number(data.getBigInt64(index * 8, true)) / divisor;
    }
    default: {
      const [, data] = bytesOf(16);
      return (index) => Number((data.getBigInt64(index * 16 + 8, true) << 64n) | data.getBigUint64(index * 16, true)) / divisor;
    }
  }
}

function enumReader(logicalType: duckdb.LogicalType, bytesOf: (widthBytes: number) => [Uint8Array, DataView]): Reader {
  const { Type } = duckdb;
  const names = Array.from({ length: duckdb.enum_dictionary_size(logicalType) }, (_, index) =>
    duckdb.enum_dictionary_value(logicalType, index),
  );
  const internal = duckdb.enum_internal_type(logicalType);
  const widthBytes = internal === Type.UTINYINT ? 1 : internal === Type.USMALLINT ? 2 : 4;
  const [, data] = bytesOf(widthBytes);
  return (index) => {
    const at = index * widthBytes;
    return names[widthBytes === 1 ? data.getUint8(at) : widthBytes === 2 ? data.getUint16(at, true) : data.getUint32(at, true)] ?? null;
  };
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
