/** OTLP requests and encoded replies. The servers do not parse request bodies. */

export type OtlpSignalName = "traces" | "logs" | "metrics";
/** Content encodings. Python exporters also offer deflate, the Collector zstd. */
const encodings = ["identity", "gzip", "deflate", "zstd"] as const;
export type OtlpEncoding = (typeof encodings)[number];
/** For `accept-encoding`. */
export const otlpEncodings: readonly string[] = encodings;

/** Names are case-sensitive; HTTP callers lower them first. */
export function isOtlpEncoding(text: string): text is OtlpEncoding {
  return otlpEncodings.includes(text);
}

/** One export call, as received. */
export interface OtlpExport {
  signal: OtlpSignalName;
  format: "protobuf" | "json";
  encoding: OtlpEncoding;
  /** The body as sent. */
  body: Uint8Array;
}

export type OtlpServerReply =
  | { kind: "accepted"; rejected: number; message: string }
  | { kind: "refused"; reason: "malformed" | "too-large"; message: string }
  | { kind: "refused"; reason: "busy" | "unavailable"; message: string; retryAfterMs: number };

/** Must not reject. The body is released when it resolves. */
export type OtlpHandler = (request: OtlpExport) => Promise<OtlpServerReply>;

/** Whether a request with this `authorization` header is accepted. */
export type OtlpAuthorize = (header: string | undefined) => boolean;

export const grpcStatus = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

const rejectedNames: Record<OtlpSignalName, string> = {
  traces: "rejectedSpans",
  logs: "rejectedLogRecords",
  metrics: "rejectedDataPoints",
};

type Accepted = Extract<OtlpServerReply, { kind: "accepted" }>;
type Refused = Extract<OtlpServerReply, { kind: "refused" }>;

const noBytes = Buffer.alloc(0);

/** An Export…ServiceResponse: empty if everything was stored. */
export function encodeAccepted({ rejected, message }: Accepted): Buffer {
  if (rejected === 0 && message === "") return noBytes;
  return sized(1, Buffer.concat([Buffer.from([0x08]), varint(rejected), sized(2, Buffer.from(message))]));
}

/** The same in JSON, for senders of JSON. */
export function acceptedJson(signal: OtlpSignalName, { rejected, message }: Accepted): string {
  if (rejected === 0 && message === "") return "{}";
  // Numbers of 64 bits are strings in protobuf's JSON.
  return JSON.stringify({ partialSuccess: { [rejectedNames[signal]]: String(rejected), errorMessage: message } });
}

/** A google.rpc.Status, with RetryInfo if the request may be retried. */
export function encodeStatus(code: number, message: string, retryAfterMs?: number): Buffer {
  const parts = [Buffer.from([0x08]), varint(code), sized(2, Buffer.from(message))];
  if (retryAfterMs !== undefined) {
    const seconds = Math.floor(retryAfterMs / 1_000);
    const duration = Buffer.concat([
      Buffer.from([0x08]),
      varint(seconds),
      Buffer.from([0x10]),
      varint((retryAfterMs - seconds * 1_000) * 1e6),
    ]);
    const any = Buffer.concat([sized(1, Buffer.from("type.googleapis.com/google.rpc.RetryInfo")), sized(2, sized(1, duration))]);
    parts.push(sized(3, any));
  }
  return Buffer.concat(parts);
}

/** OTLP treats RESOURCE_EXHAUSTED as retryable only with RetryInfo, so an oversized request is not repeated. */
export function grpcStatusOf({ reason }: Refused): number {
  switch (reason) {
    case "malformed":
      return grpcStatus.invalidArgument;
    case "too-large":
    case "busy":
      return grpcStatus.resourceExhausted;
    case "unavailable":
      return grpcStatus.unavailable;
  }
}

/** OTLP/HTTP lets senders retry 429, 502, 503 and 504 only. */
export function httpStatusOfRefusal({ reason }: Refused): number {
  switch (reason) {
    case "malformed":
      return 400;
    case "too-large":
      return 413;
    case "busy":
      return 429;
    case "unavailable":
      return 503;
  }
}

/** Undefined for refusals that a retry would not change. */
export function retryAfterMsOf(refused: Refused): number | undefined {
  return "retryAfterMs" in refused ? refused.retryAfterMs : undefined;
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = Math.max(0, Math.floor(value));
  while (rest > 0x7f) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  return Buffer.from([...bytes, rest]);
}

function sized(field: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(field << 3) | 2]), varint(content.length), content]);
}
