import { defineSegmentSignal } from "./define-segment-signal.ts";
import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/** Log records as OpenTelemetry sends them. Lines of files and of the journal have the same form. */
export const logRecord = defineSegmentSignal({
  name: "log",
  description: "One log record",
  columns: {
    time: "time",
    service: "text",
    /** trace, debug, info, warn, error, fatal; empty when unknown */
    severity: "text",
    /** 1 to 24 on OpenTelemetry's scale; 0 when unknown. */
    severity_number: "int32",
    /** Severity as the sender wrote it. */
    severity_text: "text?",
    /** Text unchanged, anything else as JSON. */
    body: "text?",
    trace_id: "id16?",
    span_id: "id8?",
    event_name: "text?",
    exception_type: "text?",
    /** Id of the body's pattern; see the signal `log_pattern`. */
    pattern: "text?",
    service_version: "text?",
    service_namespace: "text?",
    service_instance: "text?",
    environment: "text?",
    host_name: "text?",
    /** JSON object of attributes without a column. */
    attributes: "text?",
    /** When a collector received it, microseconds since 1970. */
    observed_time_us: "int64",
    /** JSON object of all resource attributes. */
    resource: "text?",
    resource_schema_url: "text?",
    scope_name: "text?",
    scope_version: "text?",
    /** JSON object. */
    scope_attributes: "text?",
    scope_schema_url: "text?",
    flags: "int32?",
    /** Number of attributes that the sender dropped. */
    dropped: "int32?",
  },
  lookup: "trace_id",
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 8 },
    colony: { maxAgeMs: 14 * 24 * hourMs, weight: 8 },
  },
});

/** Count of each log pattern per one-minute window. */
export const logPattern = defineSignal({
  name: "log_pattern",
  description: "How many log records of a service had the same pattern and severity within a minute",
  columns: {
    service: "text",
    /** Hash of the template, 12 hex digits, equal at every agent. */
    pattern: "text",
    /** The text with `<*>`, `<num>` and the like for variable parts. */
    template: "text",
    /** As in the signal `log`. */
    severity: "text",
    records: "int",
    /** Whether this agent saw it for the first time; false during its first minutes with a service. */
    is_new: "bool",
    /** Text of one record, truncated. */
    example: "text?",
  },
  retention: {
    agent: { maxAgeMs: 7 * 24 * hourMs, weight: 1 },
    colony: { maxAgeMs: 30 * 24 * hourMs, weight: 2 },
  },
});
