/**
 * The OTLP room: what OpenTelemetry sends, from the bytes of a request to typed columns. Readers, limits and sampling; no sockets, which are opened
 * by `mesh`, and no files, which belong to `store`.
 * @module
 */

export { type AttributeLimits, defaultAttributeLimits } from "./attribute-reader.ts";
export { MalformedError } from "./protobuf-reader.ts";
export { type DecodeCounts, SpanDecoder } from "./trace-request.ts";
