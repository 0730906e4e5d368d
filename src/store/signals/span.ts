import { defineSegmentSignal } from "./define-segment-signal.ts";

const hourMs = 3_600_000;

/** Spans as OpenTelemetry sends them. Well-known attributes, by current and older conventions, are columns; the others are JSON. */
export const span = defineSegmentSignal({
  name: "span",
  description: "One span of a distributed trace; `weight` is how many spans of its kind it stands for, so counts are sum(weight)",
  columns: {
    time: "time",
    service: "text",
    trace_id: "id16",
    span_id: "id8",
    parent_span_id: "id8?",
    name: "text",
    /** unspecified, internal, server, client, producer, consumer */
    kind: "text",
    duration_ns: "int64",
    /** unset, ok, error */
    status: "text",
    status_message: "text?",
    /** 1 unless traces were sampled; 0 for a span kept only to complete its trace. */
    weight: "double",
    service_version: "text?",
    service_namespace: "text?",
    service_instance: "text?",
    environment: "text?",
    host_name: "text?",
    http_method: "text?",
    http_route: "text?",
    http_status_code: "int32?",
    /** Without the query string. */
    url_path: "text?",
    server_address: "text?",
    server_port: "int32?",
    peer_service: "text?",
    db_system: "text?",
    db_name: "text?",
    db_operation: "text?",
    /** Normalised, without literal values. */
    db_statement: "text?",
    rpc_system: "text?",
    rpc_service: "text?",
    rpc_method: "text?",
    rpc_status_code: "int32?",
    messaging_system: "text?",
    messaging_destination: "text?",
    messaging_operation: "text?",
    error_type: "text?",
    /** From the span, or from its first exception event. */
    exception_type: "text?",
    user_agent: "text?",
    /** JSON object of attributes without a column. */
    attributes: "text?",
    /** JSON list of {offset_ns, name, attributes?, dropped?}; nanoseconds after the span's start. */
    events: "text?",
    /** JSON list of {trace_id, span_id, trace_state, attributes?, dropped?}; ids in hex. */
    links: "text?",
    /** JSON object of all resource attributes. */
    resource: "text?",
    resource_schema_url: "text?",
    scope_name: "text?",
    scope_version: "text?",
    /** JSON object. */
    scope_attributes: "text?",
    scope_schema_url: "text?",
    trace_state: "text?",
    /** W3C trace flags in the lowest 8 bits. */
    flags: "int32?",
    /** Number of attributes, events and links that the sender dropped. */
    dropped: "int32?",
  },
  lookup: "trace_id",
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 8 },
    colony: { maxAgeMs: 14 * 24 * hourMs, weight: 8 },
  },
});
