/** Logging: JSON lines for machines, readable lines for a terminal. Fields must not contain secrets; callers redact. */

import { escapeText } from "./escape-text.ts";

export const logLevels = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];
export type LogFields = Record<string, unknown>;

export interface LogRecord {
  atMs: number;
  level: LogLevel;
  /** The component: `agent`, `colony.pull`. */
  scope: string;
  message: string;
  fields: LogFields;
}

/** Destination of log lines. Must not throw: a full disk must not crash a daemon. */
export type LogSink = (record: LogRecord) => void;

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger with a narrower scope: `log.child("pull")` of `colony` is `colony.pull`. */
  child(scope: string): Logger;
  /** Changes the level of this logger and of all loggers with the same root. */
  setLevel(level: LogLevel): void;
}

export function createLogger(scope: string, level: LogLevel, sink: LogSink, nowMs: () => number = Date.now): Logger {
  const state = { level };
  const make = (name: string): Logger => {
    const write = (recordLevel: LogLevel, message: string, fields: LogFields = {}): void => {
      if (logLevels.indexOf(recordLevel) < logLevels.indexOf(state.level)) return;
      sink({ atMs: nowMs(), level: recordLevel, scope: name, message, fields });
    };
    return {
      debug: (message, fields) => write("debug", message, fields),
      info: (message, fields) => write("info", message, fields),
      warn: (message, fields) => write("warn", message, fields),
      error: (message, fields) => write("error", message, fields),
      child: (sub) => make(`${name}.${sub}`),
      setLevel: (next) => {
        state.level = next;
      },
    };
  };
  return make(scope);
}

/** Errors keep name, message, code and cause chain; a bigint becomes a string. */
function jsonValue(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Error) {
    const { name, message, cause } = value;
    const code = "code" in value ? value.code : undefined;
    return { name, message, code, cause };
  }
  return value;
}

export function formatJsonLine(record: LogRecord): string {
  const { atMs, level, scope, message, fields } = record;
  return `${JSON.stringify({ at: new Date(atMs).toISOString(), level, scope, message, ...fields }, jsonValue)}\n`;
}

const colours: Record<LogLevel, string> = { debug: "\u001b[90m", info: "\u001b[36m", warn: "\u001b[33m", error: "\u001b[31m" };

export function formatTerminalLine(record: LogRecord, colour: boolean): string {
  const time = new Date(record.atMs).toTimeString().slice(0, 8);
  const level = record.level.toUpperCase().padEnd(5);
  const fields = Object.entries(record.fields)
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        ` ${key}=${value instanceof Error ? value.message : typeof value === "string" ? value : JSON.stringify(value, jsonValue)}`,
    )
    .join("");
  const head = colour ? `${colours[record.level]}${level}\u001b[0m` : level;
  return `${time} ${head} ${escapeText(`${record.scope}: ${record.message}${fields}`)}\n`;
}

export function streamSink(stream: { write(text: string): unknown }, format: (record: LogRecord) => string): LogSink {
  return (record) => {
    stream.write(format(record));
  };
}

export const silentLogger: Logger = createLogger("silent", "error", () => undefined);
