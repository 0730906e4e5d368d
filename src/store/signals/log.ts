import { defineSegmentSignal } from "./define-segment-signal.ts";
import { defineSignal } from "./define-signal.ts";

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
    /** Of the body without what changes; see the signal `log_pattern`. */
    pattern: "text?",
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

/** How often each pattern of log records was seen, by window of a minute. */
export const logPattern = defineSignal({
  name: "log_pattern",
  description: "How many log records of a service had the same pattern and severity within a minute",
  columns: {
    service: "text",
    /** The same for the same template, wherever it was seen: 12 hex digits. */
    pattern: "text",
    /** The text with `<*>`, `<num>` and the like for what changes. */
    template: "text",
    /** As in the signal `log`. */
    severity: "text",
    records: "int",
    /** Whether this agent had not seen it before; false while it gets to know the service. */
    is_new: "bool",
    /** One record's text, shortened. */
    example: "text?",
  },
  retention: {
    agent: { maxAgeMs: 7 * 24 * hourMs, weight: 1 },
    colony: { maxAgeMs: 30 * 24 * hourMs, weight: 2 },
  },
});
