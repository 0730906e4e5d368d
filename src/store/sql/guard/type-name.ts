import duckdb from "@duckdb/node-bindings";

/** The SQL name of a type: `BIGINT`, `DECIMAL(18,3)`, `STRUCT(a INTEGER)[]`. */
export function typeName(type: duckdb.LogicalType): string {
  const alias = duckdb.logical_type_get_alias(type);
  if (alias !== null && alias !== "") return alias;
  const { Type } = duckdb;
  const id = duckdb.get_type_id(type);
  switch (id) {
    case Type.DECIMAL:
      return `DECIMAL(${duckdb.decimal_width(type)},${duckdb.decimal_scale(type)})`;
    case Type.LIST:
      return `${typeName(duckdb.list_type_child_type(type))}[]`;
    case Type.ARRAY:
      return `${typeName(duckdb.array_type_child_type(type))}[${duckdb.array_type_array_size(type)}]`;
    case Type.MAP:
      return `MAP(${typeName(duckdb.map_type_key_type(type))}, ${typeName(duckdb.map_type_value_type(type))})`;
    case Type.STRUCT: {
      const fields = Array.from({ length: duckdb.struct_type_child_count(type) }, (_, field) => {
        return `${duckdb.struct_type_child_name(type, field)} ${typeName(duckdb.struct_type_child_type(type, field))}`;
      });
      return `STRUCT(${fields.join(", ")})`;
    }
    case Type.TIMESTAMP_TZ:
      return "TIMESTAMP WITH TIME ZONE";
    case Type.SQLNULL:
      return "NULL";
    default:
      return Type[id] ?? `type ${id}`;
  }
}
