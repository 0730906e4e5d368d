/** The part of Thrift's compact protocol that a Parquet footer and page headers need: structs, lists, integers, bytes, booleans. */

/** A field's value with its wire type. `undefined` fields are omitted. */
export type ThriftValue =
  | { type: "int32" | "int64"; value: number }
  | { type: "bytes"; value: Uint8Array }
  | { type: "bool"; value: boolean }
  | { type: "list"; items: readonly ThriftValue[] }
  | { type: "struct"; fields: ThriftFields };

/** In ascending order of field id. */
export type ThriftFields = readonly (readonly [id: number, value: ThriftValue | undefined])[];

const typeCodes = { int32: 5, int64: 6, bytes: 8, list: 9, struct: 12 } as const;

export const int32 = (value: number): ThriftValue => ({ type: "int32", value });
export const int64 = (value: number): ThriftValue => ({ type: "int64", value });
export const bytes = (value: Uint8Array | string): ThriftValue => ({
  type: "bytes",
  value: typeof value === "string" ? Buffer.from(value) : value,
});
export const bool = (value: boolean): ThriftValue => ({ type: "bool", value });
export const list = (items: readonly ThriftValue[]): ThriftValue => ({ type: "list", items });
export const struct = (fields: ThriftFields): ThriftValue => ({ type: "struct", fields });

export function encodeThrift(fields: ThriftFields): Uint8Array {
  const writer = new ThriftWriter();
  writer.struct(fields);
  return writer.finish();
}

class ThriftWriter {
  #buffer = Buffer.allocUnsafe(1_024);
  #end = 0;

  finish(): Uint8Array {
    return this.#buffer.subarray(0, this.#end);
  }

  struct(fields: ThriftFields): void {
    let previous = 0;
    for (const [id, value] of fields) {
      if (value === undefined) continue;
      const code = value.type === "bool" ? (value.value ? 1 : 2) : typeCodes[value.type];
      const delta = id - previous;
      if (delta > 0 && delta < 16) this.#byte((delta << 4) | code);
      else {
        this.#byte(code);
        this.#zigzag(id);
      }
      previous = id;
      // A boolean field has its value in the header.
      if (value.type !== "bool") this.#value(value);
    }
    this.#byte(0);
  }

  #value(value: ThriftValue): void {
    switch (value.type) {
      case "int32":
      case "int64":
        return this.#zigzag(value.value);
      case "bytes":
        this.#varint(value.value.length);
        this.#reserve(value.value.length);
        this.#buffer.set(value.value, this.#end);
        this.#end += value.value.length;
        return;
      case "bool":
        return this.#byte(value.value ? 1 : 2);
      case "list":
        return this.#list(value.items);
      case "struct":
        return this.struct(value.fields);
    }
  }

  #list(items: readonly ThriftValue[]): void {
    const first = items[0];
    const code = first === undefined || first.type === "bool" ? typeCodes.struct : typeCodes[first.type];
    if (items.length < 15) this.#byte((items.length << 4) | code);
    else {
      this.#byte(0xf0 | code);
      this.#varint(items.length);
    }
    for (const item of items) this.#value(item);
  }

  #zigzag(value: number): void {
    this.#varint(value >= 0 ? value * 2 : -value * 2 - 1);
  }

  /** Safe integers only: offsets and counts within one file. */
  #varint(value: number): void {
    let rest = value;
    while (rest > 127) {
      this.#byte((rest % 128) | 128);
      rest = Math.floor(rest / 128);
    }
    this.#byte(rest);
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#buffer[this.#end++] = value;
  }

  #reserve(count: number): void {
    if (this.#end + count <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#end + count));
    this.#buffer.copy(larger, 0, 0, this.#end);
    this.#buffer = larger;
  }
}
