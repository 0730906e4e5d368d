/** Time, severity and trace of a log line: JSON, logfmt or plain text. */

/** What a line says about itself. Fields that it does not have are null, 0 or empty. */
export interface ParsedLine {
  /** Microseconds since 1970; null when the line has no time. */
  timeUs: number | null;
  /** 1 to 24 by OpenTelemetry's scale; 0 when unknown. */
  severityNumber: number;
  /** As written in the line; empty when there is none. */
  severityText: string;
  body: string;
  traceId: string | null;
  spanId: string | null;
  /** Other fields of a JSON line; values as text or JSON. */
  attributes: Record<string, string>;
}

const words: readonly (readonly [RegExp, number])[] = [
  [/^(?:trace|finest|verbose)$/i, 1],
  [/^(?:debug|dbg|fine|finer)$/i, 5],
  [/^(?:info|inf|information|informational|notice|log|config)$/i, 9],
  [/^(?:warn|warning|wrn)$/i, 13],
  [/^(?:error|err|eror|severe)$/i, 17],
  [/^(?:fatal|critical|crit|alert|emerg|emergency|panic|dpanic)$/i, 21],
];
/** A level in a plain line: near its start, in capitals or in brackets. Elsewhere the word is text. */
const plainLevel =
  /(?:^|[\s[(|:<])(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRITICAL|CRIT|FATAL|PANIC|SEVERE)(?=[\s\]):|>,]|$)|[[<(](trace|debug|info|notice|warn|warning|error|critical|fatal)[\]>)]/;
/** Characters of the first line that are searched for a level. */
const levelReach = 100;
/** `level=info`, as logrus and slog write it. */
const logfmtLevel = /(?:^|\s)(?:level|lvl|severity)="?([A-Za-z]+)"?/;
/** Used only for lines with a logfmt level or message: `time=` in plain text may be anything. */
const logfmtTime = /(?:^|\s)(?:ts|time|timestamp)=(?:"([^"]*)"|(\S+))/;
/** `msg=` marks a logfmt line even without a level. */
const logfmtMessage = /(?:^|\s)msg=/;
/** Also with slashes, as nginx and Go write it. */
const startTime = /^\[?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)/;
/** A W3C trace id: 32 hex digits after `trace_id=`, `"traceId":` and the like. */
const traceField = /(?:^|[\s{,[(])"?trace[_.]?id"?\s?[=:]\s?"?([0-9a-f]{32})\b/i;
/** A W3C span id: 16 hex digits. */
const spanField = /(?:^|[\s{,[(])"?span[_.]?id"?\s?[=:]\s?"?([0-9a-f]{16})\b/i;

/** Attributes of a JSON line; further fields are dropped. */
const maxFields = 32;
/** Of one attribute value; the rest is dropped. */
const maxFieldCharacters = 1_000;

/** Never fails: a line that is neither JSON nor logfmt is plain text. */
export function parseLogLine(line: string): ParsedLine {
  return (line.startsWith("{") ? parseJson(line) : undefined) ?? parsePlain(line);
}

/** Syslog's priorities: 0 (emergency) to 7 (debug). */
export function severityOfPriority(priority: number): number {
  return [21, 21, 21, 17, 13, 10, 9, 5][priority] ?? 0;
}

/** The lowest OpenTelemetry severity number of the word's range; 0 when it is not a level. */
export function severityOfWord(word: string): number {
  return words.find(([expression]) => expression.test(word))?.[1] ?? 0;
}

/** Logfmt or free text. The whole line is the body. */
function parsePlain(line: string): ParsedLine {
  // Only the first line of a record counts: a level within a stack trace is not that of the record.
  const end = line.indexOf("\n");
  const first = end < 0 ? line : line.slice(0, end);
  const level = plainLevel.exec(first.slice(0, levelReach));
  const ownLevel = logfmtLevel.exec(first)?.[1];
  const severityText = level?.[1] ?? level?.[2] ?? ownLevel ?? "";
  const logfmt = ownLevel !== undefined || logfmtMessage.test(first) ? logfmtTime.exec(first) : null;
  const time = startTime.exec(line)?.[1] ?? logfmt?.[1] ?? logfmt?.[2];
  return {
    timeUs: time === undefined ? null : timeOf(time),
    severityNumber: severityOfWord(severityText),
    severityText,
    body: line,
    traceId: idIn(traceField.exec(line)?.[1]),
    spanId: idIn(spanField.exec(line)?.[1]),
    attributes: {},
  };
}

const timeKeys = ["time", "timestamp", "ts", "@timestamp", "t"];
const levelKeys = ["level", "severity", "lvl", "loglevel", "levelname", "log.level", "severity_text"];
const bodyKeys = ["msg", "message", "body", "event", "log"];
const traceKeys = ["trace_id", "traceId", "traceid", "trace.id", "otelTraceID"];
const spanKeys = ["span_id", "spanId", "spanid", "span.id", "otelSpanID"];

/** Undefined when the line is not an object. */
function parseJson(line: string): ParsedLine | undefined {
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(line) as Record<string, unknown>;
  } catch {
    // It only starts like an object.
    return undefined;
  }
  const used = new Set<string>();
  const first = (keys: readonly string[], isFit: (value: unknown) => boolean): unknown => {
    const key = keys.find((name) => isFit(fields[name]));
    if (key !== undefined) used.add(key);
    return key === undefined ? undefined : fields[key];
  };
  const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
  const isTextOrNumber = (value: unknown): boolean => isText(value) || typeof value === "number";
  const time = first(timeKeys, isTextOrNumber);
  const level = first(levelKeys, isTextOrNumber);
  const body = first(bodyKeys, isText);
  const traceId = first(traceKeys, (value) => idIn(value, 32) !== null);
  const spanId = first(spanKeys, (value) => idIn(value, 16) !== null);
  return {
    timeUs: timeOf(time),
    severityNumber: typeof level === "number" ? severityOfNumber(level) : severityOfWord(String(level ?? "")),
    severityText: level === undefined ? "" : String(level),
    body: typeof body === "string" ? body : line,
    traceId: idIn(traceId, 32),
    spanId: idIn(spanId, 16),
    // Without a message, the line itself is the body.
    attributes: typeof body === "string" ? attributesOf(fields, used) : {},
  };
}

function attributesOf(fields: Record<string, unknown>, used: ReadonlySet<string>): Record<string, string> {
  const entries = Object.entries(fields).filter(([key, value]) => !used.has(key) && value !== null && value !== undefined);
  return Object.fromEntries(
    entries
      .slice(0, maxFields)
      .map(([key, value]) => [key, (typeof value === "string" ? value : JSON.stringify(value)).slice(0, maxFieldCharacters)]),
  );
}

/** Levels of pino and bunyan: 10 (trace) to 60 (fatal). */
function severityOfNumber(level: number): number {
  return level >= 10 && level <= 60 ? Math.floor(level / 10) * 4 - 3 : level >= 0 && level <= 7 ? severityOfPriority(level) : 0;
}

function idIn(value: unknown, digits?: number): string | null {
  if (typeof value !== "string" || !/^[0-9a-f]+$/i.test(value) || /^0+$/.test(value)) return null;
  return digits === undefined || value.length === digits ? value.toLowerCase() : null;
}

const minUs = Date.UTC(1990, 0, 1) * 1_000;
const mostUs = Date.UTC(2200, 0, 1) * 1_000;

/** ISO 8601, or seconds, milliseconds, microseconds or nanoseconds since 1970, whichever gives a plausible date. */
function timeOf(value: unknown): number | null {
  if (typeof value === "string" && !/^\d+(?:\.\d+)?$/.test(value)) {
    const ms = Date.parse(
      value
        .replace(",", ".")
        .replace(/^(\d{4})\/(\d\d)\//, "$1-$2-")
        .replace(/^(\S+) (?=\d)/, "$1T"),
    );
    return Number.isNaN(ms) ? null : ms * 1_000;
  }
  const number = Number(value ?? Number.NaN);
  for (const factor of [1_000_000, 1_000, 1, 0.001]) {
    const us = Math.round(number * factor);
    if (us > minUs && us < mostUs) return us;
  }
  return null;
}
