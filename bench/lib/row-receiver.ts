/** The baseline of the agent's receiver: the same listener, requests decoded by protobufjs, spans appended row by row to a DuckDB table. */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type DuckDBAppender, DuckDBInstance, DuckDBTimestampValue } from "@duckdb/node-api";
import { Root, type Type } from "protobufjs/light.js";
import { ByteBudget } from "../../src/base/byte-budget.ts";
import { silentLogger } from "../../src/base/log.ts";
import { startOtlpServers } from "../../src/otlp/index.ts";
import { serveParent } from "./worker.ts";

export type RowReceiverRequest = { kind: "begin" } | { kind: "end"; spans: number };

const mebibyte = 1024 ** 2;
/** Rows appended between two flushes. */
const flushRows = 20_000;

interface AnyValue {
  stringValue?: string | null;
  intValue?: { toNumber(): number } | null;
}
interface KeyValue {
  key: string;
  value: AnyValue;
}
interface Span {
  traceId: Uint8Array;
  spanId: Uint8Array;
  parentSpanId: Uint8Array;
  name: string;
  kind: number;
  startTimeUnixNano: { toString(): string };
  endTimeUnixNano: { toString(): string };
  attributes: KeyValue[];
  events: { name: string; attributes: KeyValue[] }[];
  status?: { message: string; code: number } | null;
}
interface TraceRequest {
  resourceSpans: { resource: { attributes: KeyValue[] }; scopeSpans: { scope: { name: string; version: string }; spans: Span[] }[] }[];
}

/** The part of OTLP's messages that the benchmark's requests use. */
function requestType(): Type {
  const fields = (...names: [name: string, id: number, type: string, rule?: "repeated"][]) => ({
    fields: Object.fromEntries(names.map(([name, id, type, rule]) => [name, { id, type, ...(rule && { rule }) }])),
  });
  return Root.fromJSON({
    nested: {
      AnyValue: fields(["stringValue", 1, "string"], ["boolValue", 2, "bool"], ["intValue", 3, "int64"], ["doubleValue", 4, "double"]),
      KeyValue: fields(["key", 1, "string"], ["value", 2, "AnyValue"]),
      Resource: fields(["attributes", 1, "KeyValue", "repeated"]),
      Scope: fields(["name", 1, "string"], ["version", 2, "string"]),
      Event: fields(["timeUnixNano", 1, "fixed64"], ["name", 2, "string"], ["attributes", 3, "KeyValue", "repeated"]),
      Status: fields(["message", 2, "string"], ["code", 3, "int32"]),
      Span: fields(
        ["traceId", 1, "bytes"],
        ["spanId", 2, "bytes"],
        ["parentSpanId", 4, "bytes"],
        ["name", 5, "string"],
        ["kind", 6, "int32"],
        ["startTimeUnixNano", 7, "fixed64"],
        ["endTimeUnixNano", 8, "fixed64"],
        ["attributes", 9, "KeyValue", "repeated"],
        ["events", 11, "Event", "repeated"],
        ["status", 15, "Status"],
      ),
      ScopeSpans: fields(["scope", 1, "Scope"], ["spans", 2, "Span", "repeated"]),
      ResourceSpans: fields(["resource", 1, "Resource"], ["scopeSpans", 2, "ScopeSpans", "repeated"]),
      TraceRequest: fields(["resourceSpans", 1, "ResourceSpans", "repeated"]),
    },
  }).lookupType("TraceRequest");
}

/** Attributes with a column, as in Coral's own signal. */
const promoted = ["http.request.method", "http.route", "url.path", "server.address", "user_agent.original"] as const;
const table = `CREATE TABLE span (time TIMESTAMP, service VARCHAR, resource VARCHAR, scope VARCHAR, trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR,
  name VARCHAR, kind INTEGER, duration_ns BIGINT, status INTEGER, status_message VARCHAR, ${promoted.map((name) => `"${name}" VARCHAR`).join(", ")},
  http_status_code INTEGER, attributes VARCHAR, events VARCHAR)`;

/** Runs in a child process until the benchmark disconnects, then exits. */
export async function runRowReceiver(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true });
  // The same engine settings as Coral's: the default threshold would make it several times slower.
  const settings = { threads: "1", memory_limit: "1GB", checkpoint_threshold: "256MB" };
  const connection = await (await DuckDBInstance.create(join(directory, "rows.duckdb"), settings)).connect();
  await connection.run(table);
  const appender = await connection.createAppender("span");
  const type = requestType();
  let rows = 0;
  const servers = await startOtlpServers({
    grpc: undefined,
    http: { host: "127.0.0.1", port: 0, portSearch: 0 },
    handler: ({ body }) => {
      const before = rows;
      for (const group of (type.decode(body) as unknown as TraceRequest).resourceSpans) rows += appendGroup(appender, group);
      if (Math.floor(before / flushRows) !== Math.floor(rows / flushRows)) appender.flushSync();
      return Promise.resolve({ kind: "accepted", rejected: 0, message: "" });
    },
    limits: { maxBodyBytes: 16 * mebibyte, maxConnections: 512, maxStreams: 128, bodyTimeoutMs: 30_000, idleTimeoutMs: 300_000 },
    budget: new ByteBudget(64 * mebibyte),
    log: silentLogger,
  });
  await serveParent(async (request: RowReceiverRequest) => {
    if (request.kind === "begin") return { port: servers.http?.port };
    appender.flushSync();
    const [[found]] = (await (await connection.run("SELECT count(*) FROM span")).getRows()) as [[bigint]];
    if (Number(found) !== rows) throw new Error(`${rows} spans were appended, ${found} are stored`);
    return {};
  });
  process.exit(0);
}

function appendGroup(appender: DuckDBAppender, { resource, scopeSpans }: TraceRequest["resourceSpans"][number]): number {
  const attributes = valuesOf(resource.attributes);
  const resourceText = JSON.stringify(attributes);
  let rows = 0;
  for (const { scope, spans } of scopeSpans) {
    for (const span of spans) {
      appendSpan(appender, span, String(attributes["service.name"]), resourceText, scope.name);
      rows++;
    }
  }
  return rows;
}

function appendSpan(appender: DuckDBAppender, span: Span, service: string, resource: string, scope: string): void {
  const startNs = BigInt(span.startTimeUnixNano.toString());
  const attributes = valuesOf(span.attributes);
  appender.appendTimestamp(new DuckDBTimestampValue(startNs / 1_000n));
  for (const text of [service, resource, scope, hex(span.traceId), hex(span.spanId), hex(span.parentSpanId), span.name]) {
    appender.appendVarchar(text);
  }
  appender.appendInteger(span.kind);
  appender.appendBigInt(BigInt(span.endTimeUnixNano.toString()) - startNs);
  appender.appendInteger(span.status?.code ?? 0);
  appender.appendVarchar(span.status?.message ?? "");
  for (const name of promoted) {
    appender.appendVarchar(String(attributes[name] ?? ""));
    delete attributes[name];
  }
  appender.appendInteger(Number(attributes["http.response.status_code"] ?? 0));
  delete attributes["http.response.status_code"];
  appender.appendVarchar(JSON.stringify(attributes));
  appender.appendVarchar(
    span.events.length > 0 ? JSON.stringify(span.events.map((event) => ({ ...event, attributes: valuesOf(event.attributes) }))) : "",
  );
  appender.endRow();
}

function valuesOf(attributes: readonly KeyValue[]): Record<string, string | number> {
  const values: Record<string, string | number> = {};
  for (const { key, value } of attributes) values[key] = value.stringValue || (value.intValue?.toNumber() ?? "");
  return values;
}

/** protobufjs decodes absent bytes as an empty array. */
function hex(bytes: Uint8Array): string {
  if (bytes.length === 0) return "";
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}
