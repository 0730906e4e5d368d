import { redactLogText } from "../../redact/index.ts";
import { jsonToProtobuf } from "../json/json-request.ts";
import type { ParsedLine } from "./parse-log-line.ts";

/** Where lines come from: a file, a container, or the journal. */
export interface LineSource {
  service: string;
  /** Attributes of the source of the lines, such as `log.file.path`. */
  attributes: Readonly<Record<string, string>>;
  hostName: string;
}

/** A parsed line with the time at which it was read. */
export interface LogLine extends ParsedLine {
  /** Time of reading, microseconds since 1970. */
  observedUs: number;
}

/** Encodes lines as the request that an exporter would send, with secrets redacted. */
export function encodeLogLines({ service, attributes, hostName }: LineSource, lines: readonly LogLine[]): Uint8Array {
  const pairs = (map: Readonly<Record<string, string>>) =>
    Object.entries(map).map(([key, stringValue]) => ({ key, value: { stringValue } }));
  const logRecords = lines.map((line) => ({
    timeUnixNano: nanoseconds(line.timeUs ?? line.observedUs),
    observedTimeUnixNano: nanoseconds(line.observedUs),
    severityNumber: line.severityNumber,
    ...(line.severityText === "" ? {} : { severityText: line.severityText }),
    body: { stringValue: redactLogText(line.body) },
    attributes: pairs({ ...attributes, ...line.attributes }),
    ...(line.traceId === null ? {} : { traceId: line.traceId }),
    ...(line.spanId === null ? {} : { spanId: line.spanId }),
  }));
  const resource = { attributes: pairs({ "service.name": service, "host.name": hostName }) };
  return jsonToProtobuf("logs", Buffer.from(JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] })));
}

function nanoseconds(us: number): string {
  return `${Math.max(0, Math.round(us))}000`;
}
