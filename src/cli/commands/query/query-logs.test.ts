import { describe, expect, it } from "vitest";
import type { LogRecord, LogResult } from "../../../tools/index.ts";
import { useColony } from "../../daemon.fixture.ts";

const here = useColony();

const record = (more: Partial<LogRecord> = {}): LogRecord => ({
  at: new Date(new Date().setHours(0, 0, 1, 5)).toISOString(),
  service: "api",
  agentId: "web-1",
  severity: "error",
  severityText: null,
  body: "connection refused",
  isCut: false,
  traceId: null,
  spanId: null,
  eventName: null,
  exceptionType: null,
  pattern: null,
  attributes: null,
  ...more,
});

const result = (more: Partial<LogResult> = {}): LogResult => ({
  sinceMs: 900_000,
  by: "record",
  records: [],
  patterns: [],
  next: null,
  ...more,
});

describe("coral query logs", () => {
  it("prints one escaped line per record, newest last, and how to page to older ones", async () => {
    const records = [
      record({ body: "two\nlines \u001b[31m", exceptionType: "TypeError" }),
      record({ service: "web", severity: "", severityText: "notice", body: "hello", isCut: true }),
    ];
    here.colony.tool("coral_query_logs", result({ records, next: "17-1" }));
    const { code, stdout, stderr } = await here.world.coral("query logs --level warn --grep hello --limit 2");
    expect(code).toBe(0);
    expect(stdout.split("\n")).toEqual(["00:00:01.005 noti… web  hello …", "00:00:01.005 ERROR api  TypeError: two\\nlines \\x1b[31m", ""]);
    expect(stderr).toContain("--page 17-1");
    expect(here.colony.calls[0]?.body).toEqual({ since: "15m", level: "warn", grep: "hello", limit: 2 });
  });

  it("omits the name of the only service, and adds details with -o wide", async () => {
    here.colony.tool(
      "coral_query_logs",
      result({ records: [record({ traceId: "ab".repeat(16), pattern: "aaaaaaaaaaaa", attributes: { a: 1 } })] }),
    );
    expect((await here.world.coral("query logs api")).stdout).toBe("00:00:01.005 ERROR connection refused\n");
    expect((await here.world.coral("query logs api -o wide")).stdout).toBe(
      `00:00:01.005 ERROR connection refused  trace=${"ab".repeat(16)} pattern=aaaaaaaaaaaa agent=web-1 {"a":1}\n`,
    );
  });

  it("prints one line per pattern", async () => {
    const times = { firstAt: record().at, lastAt: record().at };
    const pattern = {
      service: "api",
      pattern: "aaaaaaaaaaaa",
      template: "user <num>",
      severity: "info",
      records: 30,
      perMinute: 2,
      isNew: true,
    };
    here.colony.tool("coral_query_logs", result({ by: "pattern", patterns: [{ ...pattern, ...times, example: "user 7" }] }));
    const { stdout } = await here.world.coral("query logs api --by pattern");
    expect(stdout).toBe(
      "RECORDS  PER MIN  SEVERITY  SERVICE  NEW  PATTERN       TEMPLATE\n     30        2  info      api      new  aaaaaaaaaaaa  user <num>\n",
    );
  });

  it("prints a note for no rows", async () => {
    here.colony.tool("coral_query_logs", result());
    const { stdout, stderr } = await here.world.coral("query logs --since 1h");
    expect(stdout).toBe("");
    expect(stderr).toContain("last 1h");
  });
});
