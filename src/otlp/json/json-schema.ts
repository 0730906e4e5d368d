/** OTLP messages for JSON: names, field numbers and types. Ids are hex in JSON, other bytes base64. */

export type JsonFieldType =
  | {
      kind:
        | "string"
        | "bytes"
        | "id"
        | "bool"
        | "double"
        | "int64"
        | "uint64"
        | "int32"
        | "uint32"
        | "sint32"
        | "fixed64"
        | "sfixed64"
        | "fixed32";
    }
  | { kind: "enum"; prefix: string; names: readonly string[] }
  | { kind: "message"; message: () => JsonMessage };

/** A field of a message by its protobuf number and type. */
export interface JsonField {
  number: number;
  type: JsonFieldType;
  isRepeated: boolean;
}

/** By name in camel case. */
export type JsonMessage = ReadonlyMap<string, JsonField>;

type Entry = readonly [name: string, number: number, type: JsonFieldType, isRepeated?: "repeated"];

function message(...entries: readonly Entry[]): JsonMessage {
  return new Map(entries.map(([name, number, type, repeated]) => [name, { number, type, isRepeated: repeated !== undefined }]));
}

const string = { kind: "string" } as const;
const bytes = { kind: "bytes" } as const;
const id = { kind: "id" } as const;
const bool = { kind: "bool" } as const;
const double = { kind: "double" } as const;
const int64 = { kind: "int64" } as const;
const uint64 = { kind: "uint64" } as const;
const uint32 = { kind: "uint32" } as const;
const sint32 = { kind: "sint32" } as const;
const fixed64 = { kind: "fixed64" } as const;
const sfixed64 = { kind: "sfixed64" } as const;
const fixed32 = { kind: "fixed32" } as const;
const of = (made: () => JsonMessage): JsonFieldType => ({ kind: "message", message: made });
const named = (prefix: string, names: string): JsonFieldType => ({ kind: "enum", prefix, names: names.split(" ") });

const anyValue: JsonMessage = message(
  ["stringValue", 1, string],
  ["boolValue", 2, bool],
  ["intValue", 3, int64],
  ["doubleValue", 4, double],
  ["arrayValue", 5, of(() => arrayValue)],
  ["kvlistValue", 6, of(() => keyValueList)],
  ["bytesValue", 7, bytes],
);
const arrayValue: JsonMessage = message(["values", 1, of(() => anyValue), "repeated"]);
const keyValue: JsonMessage = message(["key", 1, string], ["value", 2, of(() => anyValue)]);
const keyValueList: JsonMessage = message(["values", 1, of(() => keyValue), "repeated"]);
const attributes = (number: number): Entry => ["attributes", number, of(() => keyValue), "repeated"];

const resource: JsonMessage = message(attributes(1), ["droppedAttributesCount", 2, uint32]);
const scope: JsonMessage = message(["name", 1, string], ["version", 2, string], attributes(3), ["droppedAttributesCount", 4, uint32]);

/** Request → resource → scope → items. All three signals share this structure, with different names. */
function request(groups: string, scopes: string, items: string, item: JsonMessage): JsonMessage {
  const scopeGroup = message(["scope", 1, of(() => scope)], [items, 2, of(() => item), "repeated"], ["schemaUrl", 3, string]);
  const group = message(["resource", 1, of(() => resource)], [scopes, 2, of(() => scopeGroup), "repeated"], ["schemaUrl", 3, string]);
  return message([groups, 1, of(() => group), "repeated"]);
}

const spanEvent: JsonMessage = message(["timeUnixNano", 1, fixed64], ["name", 2, string], attributes(3), [
  "droppedAttributesCount",
  4,
  uint32,
]);
const spanLink: JsonMessage = message(
  ["traceId", 1, id],
  ["spanId", 2, id],
  ["traceState", 3, string],
  attributes(4),
  ["droppedAttributesCount", 5, uint32],
  ["flags", 6, fixed32],
);
const spanStatus: JsonMessage = message(["message", 2, string], ["code", 3, named("STATUS_CODE_", "UNSET OK ERROR")]);
const span: JsonMessage = message(
  ["traceId", 1, id],
  ["spanId", 2, id],
  ["traceState", 3, string],
  ["parentSpanId", 4, id],
  ["name", 5, string],
  ["kind", 6, named("SPAN_KIND_", "UNSPECIFIED INTERNAL SERVER CLIENT PRODUCER CONSUMER")],
  ["startTimeUnixNano", 7, fixed64],
  ["endTimeUnixNano", 8, fixed64],
  attributes(9),
  ["droppedAttributesCount", 10, uint32],
  ["events", 11, of(() => spanEvent), "repeated"],
  ["droppedEventsCount", 12, uint32],
  ["links", 13, of(() => spanLink), "repeated"],
  ["droppedLinksCount", 14, uint32],
  ["status", 15, of(() => spanStatus)],
  ["flags", 16, fixed32],
);

const severities = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"].flatMap((name) => [name, `${name}2`, `${name}3`, `${name}4`]);
const logRecord: JsonMessage = message(
  ["timeUnixNano", 1, fixed64],
  ["severityNumber", 2, named("SEVERITY_NUMBER_", ["UNSPECIFIED", ...severities].join(" "))],
  ["severityText", 3, string],
  ["body", 5, of(() => anyValue)],
  attributes(6),
  ["droppedAttributesCount", 7, uint32],
  ["flags", 8, fixed32],
  ["traceId", 9, id],
  ["spanId", 10, id],
  ["observedTimeUnixNano", 11, fixed64],
  ["eventName", 12, string],
);

const exemplar: JsonMessage = message(
  ["timeUnixNano", 2, fixed64],
  ["asDouble", 3, double],
  ["spanId", 4, id],
  ["traceId", 5, id],
  ["asInt", 6, sfixed64],
  ["filteredAttributes", 7, of(() => keyValue), "repeated"],
);
const times: readonly Entry[] = [
  ["startTimeUnixNano", 2, fixed64],
  ["timeUnixNano", 3, fixed64],
];
const exemplars = (number: number): Entry => ["exemplars", number, of(() => exemplar), "repeated"];
const numberPoint: JsonMessage = message(...times, ["asDouble", 4, double], exemplars(5), ["asInt", 6, sfixed64], attributes(7), [
  "flags",
  8,
  uint32,
]);
const histogramPoint: JsonMessage = message(
  ...times,
  ["count", 4, fixed64],
  ["sum", 5, double],
  ["bucketCounts", 6, fixed64, "repeated"],
  ["explicitBounds", 7, double, "repeated"],
  exemplars(8),
  attributes(9),
  ["flags", 10, uint32],
  ["min", 11, double],
  ["max", 12, double],
);
const buckets: JsonMessage = message(["offset", 1, sint32], ["bucketCounts", 2, uint64, "repeated"]);
const exponentialPoint: JsonMessage = message(
  attributes(1),
  ...times,
  ["count", 4, fixed64],
  ["sum", 5, double],
  ["scale", 6, sint32],
  ["zeroCount", 7, fixed64],
  ["positive", 8, of(() => buckets)],
  ["negative", 9, of(() => buckets)],
  ["flags", 10, uint32],
  exemplars(11),
  ["min", 12, double],
  ["max", 13, double],
  ["zeroThreshold", 14, double],
);
const quantileValue: JsonMessage = message(["quantile", 1, double], ["value", 2, double]);
const summaryPoint: JsonMessage = message(
  ...times,
  ["count", 4, fixed64],
  ["sum", 5, double],
  ["quantileValues", 6, of(() => quantileValue), "repeated"],
  attributes(7),
  ["flags", 8, uint32],
);
const temporality: Entry = ["aggregationTemporality", 2, named("AGGREGATION_TEMPORALITY_", "UNSPECIFIED DELTA CUMULATIVE")];
const points = (point: JsonMessage): Entry => ["dataPoints", 1, of(() => point), "repeated"];
const metric: JsonMessage = message(
  ["name", 1, string],
  ["description", 2, string],
  ["unit", 3, string],
  ["gauge", 5, of(() => message(points(numberPoint)))],
  ["sum", 7, of(() => message(points(numberPoint), temporality, ["isMonotonic", 3, bool]))],
  ["histogram", 9, of(() => message(points(histogramPoint), temporality))],
  ["exponentialHistogram", 10, of(() => message(points(exponentialPoint), temporality))],
  ["summary", 11, of(() => message(points(summaryPoint)))],
);

export const jsonRequests = {
  traces: request("resourceSpans", "scopeSpans", "spans", span),
  logs: request("resourceLogs", "scopeLogs", "logRecords", logRecord),
  metrics: request("resourceMetrics", "scopeMetrics", "metrics", metric),
} as const;
