/** A simple, slow encoder of OTLP requests for tests: each message is a list of fields. */

export type Field = readonly [number: number, kind: FieldKind, value: FieldValue];
type FieldKind = "varint" | "zigzag" | "fixed64" | "fixed32" | "double" | "bytes" | "text" | "message";
type FieldValue = number | bigint | string | Uint8Array | readonly Field[];

export function varint(value: number | bigint): Buffer {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  do {
    const byte = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest > 0n ? byte | 0x80 : byte);
  } while (rest > 0n);
  return Buffer.from(bytes);
}

const tag = (number: number, type: number): Buffer => varint((number << 3) | type);

function sized(number: number, content: Uint8Array): Buffer {
  return Buffer.concat([tag(number, 2), varint(content.length), content]);
}

export function message(fields: readonly Field[]): Buffer {
  return Buffer.concat(fields.map(encodeField));
}

function encodeField([number, kind, value]: Field): Buffer {
  switch (kind) {
    case "varint":
      return Buffer.concat([tag(number, 0), varint(value as number)]);
    case "zigzag":
      return Buffer.concat([tag(number, 0), varint((((value as number) << 1) ^ ((value as number) >> 31)) >>> 0)]);
    case "fixed64": {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value as bigint)));
      return Buffer.concat([tag(number, 1), bytes]);
    }
    case "fixed32": {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32LE(Number(value));
      return Buffer.concat([tag(number, 5), bytes]);
    }
    case "double": {
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleLE(value as number);
      return Buffer.concat([tag(number, 1), bytes]);
    }
    case "bytes":
      return sized(number, value as Uint8Array);
    case "text":
      return sized(number, Buffer.from(value as string));
    case "message":
      return sized(number, message(value as readonly Field[]));
  }
}

/** Numbers without a fraction are doubles here; whole numbers are bigints, since the wire distinguishes them. */
export type TestValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | Uint8Array
  | readonly TestValue[]
  | { readonly [key: string]: TestValue };
export type TestAttributes = Readonly<Record<string, TestValue>>;

export function valueFields(value: TestValue): Field[] {
  if (value === null) return [];
  if (typeof value === "string") return [[1, "text", value]];
  if (typeof value === "boolean") return [[2, "varint", value ? 1 : 0]];
  if (typeof value === "bigint") return [[3, "varint", value]];
  if (typeof value === "number") return [[4, "double", value]];
  if (value instanceof Uint8Array) return [[7, "bytes", value]];
  if (Array.isArray(value)) return [[5, "message", (value as TestValue[]).map((item): Field => [1, "message", valueFields(item)])]];
  return [[6, "message", attributeFields(1, value as TestAttributes)]];
}

export function attributeFields(number: number, attributes: TestAttributes = {}): Field[] {
  return Object.entries(attributes).map(
    ([key, value]): Field => [
      number,
      "message",
      [
        [1, "text", key],
        [2, "message", valueFields(value)],
      ],
    ],
  );
}

/** The JSON of a value. */
export function shownValue(value: TestValue): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (Array.isArray(value)) return value.map(shownValue);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value as TestAttributes).map(([key, item]) => [key, shownValue(item)]));
  }
  return value;
}

export interface TestEvent {
  timeNs: bigint;
  name: string;
  attributes?: TestAttributes;
  dropped?: number;
}

export interface TestLink {
  traceId: string;
  spanId: string;
  traceState?: string;
  attributes?: TestAttributes;
  dropped?: number;
}

export interface TestSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  traceState?: string;
  name: string;
  kind?: number;
  startNs: bigint;
  endNs: bigint;
  attributes?: TestAttributes;
  events?: readonly TestEvent[];
  links?: readonly TestLink[];
  status?: { code?: number; message?: string };
  dropped?: number;
  flags?: number;
}

export interface TestGroup<T> {
  resource?: TestAttributes;
  resourceSchemaUrl?: string;
  scope?: { name?: string; version?: string; attributes?: TestAttributes };
  scopeSchemaUrl?: string;
  items: readonly T[];
}

const hex = (text: string): Buffer => Buffer.from(text, "hex");
const given = <T>(value: T | undefined, fields: (value: T) => Field[]): Field[] => (value === undefined ? [] : fields(value));

export function spanFields(span: TestSpan): Field[] {
  return [
    [1, "bytes", hex(span.traceId)],
    [2, "bytes", hex(span.spanId)],
    ...given(span.traceState, (text) => [[3, "text", text]]),
    ...given(span.parentSpanId, (id) => [[4, "bytes", hex(id)]]),
    [5, "text", span.name],
    [6, "varint", span.kind ?? 0],
    [7, "fixed64", span.startNs],
    [8, "fixed64", span.endNs],
    ...attributeFields(9, span.attributes),
    ...given(span.dropped, (count) => [[10, "varint", count]]),
    ...(span.events ?? []).map(
      (event): Field => [
        11,
        "message",
        [
          [1, "fixed64", event.timeNs],
          [2, "text", event.name],
          ...attributeFields(3, event.attributes),
          ...given(event.dropped, (count): Field[] => [[4, "varint", count]]),
        ],
      ],
    ),
    ...(span.links ?? []).map(
      (link): Field => [
        13,
        "message",
        [
          [1, "bytes", hex(link.traceId)],
          [2, "bytes", hex(link.spanId)],
          ...given(link.traceState, (text): Field[] => [[3, "text", text]]),
          ...attributeFields(4, link.attributes),
          ...given(link.dropped, (count): Field[] => [[5, "varint", count]]),
        ],
      ],
    ),
    ...given(span.status, ({ code, message: text }) => [
      [
        15,
        "message",
        [...given(text, (value): Field[] => [[2, "text", value]]), ...given(code, (value): Field[] => [[3, "varint", value]])],
      ],
    ]),
    ...given(span.flags, (flags) => [[16, "fixed32", flags]]),
  ];
}

/** ResourceSpans, ResourceLogs or ResourceMetrics, which differ in their items only. */
export function groupFields<T>(group: TestGroup<T>, itemFields: (item: T) => Field[]): Field[] {
  const { resource, scope } = group;
  return [
    [1, "message", attributeFields(1, resource)],
    [
      2,
      "message",
      [
        [
          1,
          "message",
          [
            ...given(scope?.name, (text): Field[] => [[1, "text", text]]),
            ...given(scope?.version, (text): Field[] => [[2, "text", text]]),
            ...attributeFields(3, scope?.attributes),
          ],
        ],
        ...group.items.map((item): Field => [2, "message", itemFields(item)]),
        ...given(group.scopeSchemaUrl, (text): Field[] => [[3, "text", text]]),
      ],
    ],
    ...given(group.resourceSchemaUrl, (text): Field[] => [[3, "text", text]]),
  ];
}

export function traceRequest(groups: readonly TestGroup<TestSpan>[]): Buffer {
  return message(groups.map((group): Field => [1, "message", groupFields(group, spanFields)]));
}

export interface TestLog {
  timeNs?: bigint;
  observedNs?: bigint;
  severity?: number;
  severityText?: string;
  body?: TestValue;
  attributes?: TestAttributes;
  traceId?: string;
  spanId?: string;
  eventName?: string;
  flags?: number;
  dropped?: number;
}

export function logFields(log: TestLog): Field[] {
  return [
    ...given(log.timeNs, (time): Field[] => [[1, "fixed64", time]]),
    ...given(log.severity, (number): Field[] => [[2, "varint", number]]),
    ...given(log.severityText, (text): Field[] => [[3, "text", text]]),
    ...given(log.body, (value): Field[] => [[5, "message", valueFields(value)]]),
    ...attributeFields(6, log.attributes),
    ...given(log.dropped, (count): Field[] => [[7, "varint", count]]),
    ...given(log.flags, (flags): Field[] => [[8, "fixed32", flags]]),
    ...given(log.traceId, (id): Field[] => [[9, "bytes", hex(id)]]),
    ...given(log.spanId, (id): Field[] => [[10, "bytes", hex(id)]]),
    ...given(log.observedNs, (time): Field[] => [[11, "fixed64", time]]),
    ...given(log.eventName, (text): Field[] => [[12, "text", text]]),
  ];
}

export function logRequest(groups: readonly TestGroup<TestLog>[]): Buffer {
  return message(groups.map((group): Field => [1, "message", groupFields(group, logFields)]));
}

/** Takes raw fields of a Metric, because its data is too varied for a type. */
export function metricRequest(groups: readonly TestGroup<readonly Field[]>[]): Buffer {
  return message(groups.map((group): Field => [1, "message", groupFields(group, (fields) => [...fields])]));
}

/** A packed list of fixed64 counts or of doubles. */
export function packed(number: number, values: readonly number[], kind: "fixed64" | "double" | "varint"): Field {
  const parts = values.map((value) =>
    kind === "varint" ? varint(value) : message([[1, kind, kind === "fixed64" ? BigInt(value) : value]]).subarray(1),
  );
  return [number, "bytes", Buffer.concat(parts)];
}
