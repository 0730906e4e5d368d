import { expect, it } from "vitest";
import { CoralError } from "./errors.ts";
import { createLogger, formatJsonLine, formatTerminalLine, type LogRecord } from "./log.ts";

it("a child logger has a narrower scope and shares the level of its root", () => {
  const records: LogRecord[] = [];
  const log = createLogger(
    "colony",
    "info",
    (record) => records.push(record),
    () => 0,
  );
  const child = log.child("pull");
  child.debug("hidden");
  log.setLevel("debug");
  child.debug("shown", { agent: "a" });
  expect(records).toEqual([{ atMs: 0, level: "debug", scope: "colony.pull", message: "shown", fields: { agent: "a" } }]);
});

it("formatJsonLine() writes one line that keeps error codes, causes and bigints", () => {
  const error = new CoralError({ code: "unavailable", message: "no\nspace", cause: new Error("ENOSPC") });
  const line = formatJsonLine({ atMs: 0, level: "warn", scope: "agent", message: "m", fields: { error, rows: 5n } });
  expect(line.match(/\n/g)).toHaveLength(1);
  expect(JSON.parse(line)).toMatchObject({
    at: "1970-01-01T00:00:00.000Z",
    error: { code: "unavailable", cause: { message: "ENOSPC" } },
    rows: "5",
  });
});

it("formatTerminalLine() omits undefined fields, and colour when disabled", () => {
  const line = formatTerminalLine(
    { atMs: 0, level: "info", scope: "agent", message: "ready", fields: { a: undefined, port: 9000 } },
    false,
  );
  expect(line).toMatch(/^\d\d:\d\d:\d\d INFO {2}agent: ready port=9000\n$/);
});

it("formatTerminalLine() escapes terminal control sequences in values from hosts", () => {
  const line = formatTerminalLine(
    { atMs: 0, level: "info", scope: "colony", message: 'host "\u001b[2J" has joined\nforged', fields: { host: "\u009b31m" } },
    false,
  );
  expect(line).toContain('host "\\x1b[2J" has joined\\nforged host=\\x9b31m\n');
});
