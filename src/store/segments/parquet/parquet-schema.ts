/** Parquet types of our column types. */

import type { SegmentColumnType } from "../../signals/define-segment-signal.ts";
import { bool, bytes, int32, struct, type ThriftValue } from "./thrift-compact.ts";

/** Physical types by number. */
export const physicalTypes = { boolean: 0, int32: 1, int64: 2, double: 5, byteArray: 6, fixed: 7 } as const;

interface ParquetType {
  physical: number;
  widthBytes?: number;
  /** The converted type, for older readers. */
  converted?: number;
  logical?: ThriftValue;
}

const empty = struct([]);

export const parquetTypes: Record<SegmentColumnType, ParquetType> = {
  // Microseconds, not adjusted to UTC: this is DuckDB's TIMESTAMP, which is UTC everywhere in Coral.
  time: {
    physical: physicalTypes.int64,
    logical: struct([
      [
        8,
        struct([
          [1, bool(false)],
          [2, struct([[2, empty]])],
        ]),
      ],
    ]),
  },
  int64: { physical: physicalTypes.int64 },
  int32: { physical: physicalTypes.int32 },
  double: { physical: physicalTypes.double },
  bool: { physical: physicalTypes.boolean },
  text: { physical: physicalTypes.byteArray, converted: 0, logical: struct([[1, empty]]) },
  id16: { physical: physicalTypes.fixed, widthBytes: 16, logical: struct([[14, empty]]) },
  id8: { physical: physicalTypes.int64, converted: 14 },
};

export interface SchemaColumn {
  name: string;
  type: SegmentColumnType;
  nullable: boolean;
}

export function schemaElements(columns: readonly SchemaColumn[]): ThriftValue[] {
  const root = struct([
    [4, bytes("segment")],
    [5, int32(columns.length)],
  ]);
  return [root, ...columns.map(schemaElement)];
}

function schemaElement({ name, type, nullable }: SchemaColumn): ThriftValue {
  const { physical, widthBytes, converted, logical } = parquetTypes[type];
  return struct([
    [1, int32(physical)],
    [2, widthBytes === undefined ? undefined : int32(widthBytes)],
    [3, int32(nullable ? 1 : 0)],
    [4, bytes(name)],
    [6, converted === undefined ? undefined : int32(converted)],
    [10, logical],
  ]);
}
