import { defineSegmentSignal } from "../segments/define-segment-signal.ts";

const hourMs = 3_600_000;

/** Log records as OpenTelemetry sends them, and lines of files and of the journal in the same form. */
export const logRecord = defineSegmentSignal({
  name: "log",
  description: "One log record",
  columns: {
    time: "time",
    service: "text",
    /** trace, debug, info, warn, error, fatal; empty when unknown */
    severity: "text",
    /** 1 to 24 by OpenTelemetry's scale; 0 when unknown. */
    severity_number: "int32",
    /** The sender's own word. */
    severity_text: "text?",
    /** Text as it is, anything else as JSON. */
    body: "text?",
    trace_id: "id16?",
    span_id: "id8?",
    event_name: "text?",
    exception_type: "text?",
    service_version: "text?",
    service_namespace: "text?",
    service_instance: "text?",
    environment: "text?",
    host_name: "text?",
    /** JSON object of what has no column. */
    attributes: "text?",
    /** When it was seen by a collector, microseconds since 1970. */
    observed_time_us: "int64",
    /** JSON object of all attributes of the sender. */
    resource: "text?",
    resource_schema_url: "text?",
    scope_name: "text?",
    scope_version: "text?",
    /** JSON object. */
    scope_attributes: "text?",
    scope_schema_url: "text?",
    flags: "int32?",
    /** Attributes that the sender left out. */
    dropped: "int32?",
  },
  lookup: "trace_id",
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 8 },
    colony: { maxAgeMs: 14 * 24 * hourMs, weight: 8 },
  },
});
