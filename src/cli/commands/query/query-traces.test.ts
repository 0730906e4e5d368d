import { describe, expect, it } from "vitest";
import { useColony } from "../../daemon.fixture.ts";
import { textWidth } from "../../output/text-width.ts";
import { traceId, traceSpan, traceSummary, tracesResult, wholeTrace } from "../../traces.fixture.ts";
import { chooseLines, treePrefixes } from "./trace/trace-lines.ts";

const here = useColony();

const ms = 1_000_000;
const widest = (text: string): number => Math.max(...text.split("\n").map(textWidth));

const checkout = wholeTrace([
  traceSpan(0, "GET /checkout", 0, 200, {
    service: "web",
    kind: "server",
    httpRoute: "/checkout",
    criticalNs: 60 * ms,
    selfNs: 60 * ms,
    descendants: 4,
  }),
  traceSpan(1, "validate", 10, 20, { service: "web" }),
  traceSpan(1, "POST /orders", 40, 140, {
    kind: "server",
    criticalNs: 100 * ms,
    selfNs: 100 * ms,
    status: "error",
    httpStatusCode: 503,
    statusMessage: "no stock",
  }),
  traceSpan(2, "SELECT", 50, 40, { criticalNs: 40 * ms, dbStatement: "SELECT * FROM orders WHERE id = ?", dbSystem: "postgresql" }),
  traceSpan(0, "late", 150, 0.0005, { service: "audit", isOrphan: true }),
]);

describe("coral query traces, a search", () => {
  it("passes options on", async () => {
    here.colony.tool("coral_query_traces", tracesResult({ traces: [traceSummary()], total: 1 }));
    await here.world.coral("query traces api --min-duration 250ms --error --route /orders --since 2h --sort slowest --limit 7");
    expect(here.colony.calls[0]?.body).toEqual({
      service: "api",
      minDuration: "250ms",
      error: true,
      route: "/orders",
      since: "2h",
      order: "slowest",
      limit: 7,
    });
  });

  it("prints a line per trace", async () => {
    here.colony.tool(
      "coral_query_traces",
      tracesResult({ traces: [traceSummary({ errors: 2 }), traceSummary({ name: "POST /x", durationNs: 900 })], total: 2 }),
    );
    const { code, stdout } = await here.world.coral("query traces");
    expect(code).toBe(0);
    expect(stdout.replaceAll(/\d\d:\d\d:\d\d/g, "12:00:00")).toBe(
      [
        "                        TRACE ID   STARTED  DURATION  SPANS  ERRORS  SERVICE  NAME",
        `${traceId}  12:00:00     245ms     34       2  web      GET /checkout`,
        `${traceId}  12:00:00     900ns     34       0  web      POST /x`,
        "",
      ].join("\n"),
    );
    expect(here.colony.calls[0]?.body).toEqual({ since: "1h" });
  });

  it.each([40, 50, 52, 60, 64, 72, 75, 80, 100, 120, 200])("fits a terminal of %d cells with whole ids", async (terminal) => {
    here.colony.tool(
      "coral_query_traces",
      tracesResult({
        traces: [traceSummary({ startedAt: "2025-01-01T00:00:00.000Z", service: "s".repeat(100), name: "GET /\u{1f41a}".repeat(50) })],
        total: 1,
      }),
    );
    const { stdout } = await here.world.coral("query traces", { terminal, env: { NO_COLOR: "1" } });
    expect(stdout).toContain(traceId);
    expect(widest(stdout)).toBeLessThanOrEqual(terminal);
  });

  it("prints a note for no rows", async () => {
    here.colony.tool("coral_query_traces", tracesResult());
    expect(await here.world.coral("query traces")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringContaining("No matching traces") as string,
    });
  });

  it("exports every field as csv and json", async () => {
    here.colony.tool("coral_query_traces", tracesResult({ traces: [traceSummary({ weight: 4 })], total: 1 }));
    expect((await here.world.coral("query traces -o csv")).stdout).toMatch(
      /^traceId,startedAt,durationNs,spans,errors,service,name,services,matchName,matchDurationNs,weight\n4bf92f.*,245000000,34,0,web,/,
    );
    expect(JSON.parse((await here.world.coral("query traces --json")).stdout)).toMatchObject({ traces: [{ traceId }] });
  });
});

describe("coral query traces, one trace", () => {
  it("shows attributes, events and links with --details", async () => {
    const carried = {
      attributes: '{"shop.vip":true,"shop.note":"a\\u001bb","shop.id":9223372036854775807}',
      events: '[{"offset_ns":1500,"name":"retry","attributes":{"count":2}}]',
      links: '[{"trace_id":"ab","span_id":"cd"}]',
      dropped: 4,
    };
    here.colony.tool("coral_query_traces", tracesResult({ trace: wholeTrace([traceSpan(0, "GET /", 0, 10, carried)]) }));
    const { stdout } = await here.world.coral(`query traces --trace-id ${traceId} --details`);
    expect(here.colony.calls[0]?.body).toMatchObject({ traceId, details: true });
    expect(stdout.split("\n").slice(stdout.split("\n").indexOf("Details") + 2)).toEqual([
      "    shop.vip = true",
      "    shop.note = a\\x1bb",
      "    shop.id = 9223372036854775807",
      "    event retry at 2µs: count = 2",
      "    link trace_id ab, span_id cd",
      "    4 dropped or truncated by the sender or by Coral",
      "",
    ]);
  });

  it("rejects --details for a list", async () => {
    const { code, stderr } = await here.world.coral("query traces --details");
    expect([code, stderr]).toEqual([64, expect.stringContaining("select one trace with --trace-id")]);
  });

  it.each([`--trace-id ${traceId}`, traceId, `--trace-id 00-${traceId}-00f067aa0ba902b7-01`])(
    "requests the trace for %s",
    async (words) => {
      here.colony.tool("coral_query_traces", tracesResult({ trace: checkout }));
      await here.world.coral(`query traces ${words}`);
      expect(here.colony.calls[0]?.body).toEqual({ traceId: words.split(" ").at(-1), limit: 5_000 });
    },
  );

  it("draws a waterfall with tree, bars, self times, failures and the critical path", async () => {
    here.colony.tool("coral_query_traces", tracesResult({ trace: checkout }));
    const { stdout } = await here.world.coral(`query traces ${traceId}`, { terminal: 80, env: { NO_COLOR: "1", TZ: "UTC" } });
    expect(stdout).toMatchInlineSnapshot(`
      "web  GET /checkout
      200ms · 5 spans · 3 services · 1 error · 2026-01-01 00:00:00.123
      trace 4bf92f3577b34da6a3ce929d0e0e4736

        SPAN                             0                      200ms  DURATION   SELF
      * web  GET /checkout               ████████████████████████████     200ms   60ms
        ├ validate                        ▒▒▒                              20ms   20ms
      * └ api  POST /orders ✗ 503             ████████████████████        140ms  100ms
      *   └ SELECT * FROM orders WHERE…         ██████                     40ms   40ms
      ? audit  late                                           ▒           500ns  500ns
        * █ on the critical path · ▒ not · ? its parent is missing

      Where the time went
        100ms    50%  api  POST /orders
         60ms    30%  web  GET /checkout
         40ms    20%  api  SELECT * FROM orders WHERE id = ?

      Errors
        api  POST /orders: 503 no stock
      "
    `);
  });

  it.each([40, 50, 63, 64, 80, 120, 250])("fits a terminal of %d cells", async (terminal) => {
    const deep = Array.from({ length: 60 }, (_, depth) =>
      traceSpan(depth, `step ${depth} ${"名前".repeat(20)}`, depth, 200 - 2 * depth, {
        service: `service-${depth % 2}`,
        status: "error",
        errorType: "a.very.long.ErrorType",
      }),
    );
    here.colony.tool("coral_query_traces", tracesResult({ trace: wholeTrace(deep) }));
    const { stdout } = await here.world.coral(`query traces ${traceId}`, { terminal, env: { NO_COLOR: "1" } });
    const lines = stdout.split("\n").slice(4);
    expect(widest(lines.join("\n"))).toBeLessThanOrEqual(terminal);
    expect(lines.filter((line) => line.includes("✗"))).toHaveLength(60);
    expect(stdout).toContain("▒");
  });

  it("draws one span, a span without duration, and escapes names", async () => {
    here.colony.tool("coral_query_traces", tracesResult({ trace: wholeTrace([traceSpan(0, "a\u001b[2J\nb", 0, 0)]) }));
    const { stdout } = await here.world.coral(`query traces ${traceId}`, { terminal: 80, env: { NO_COLOR: "1" } });
    expect(stdout).not.toContain("\u001b");
    expect(stdout).toContain("api  a\\x1b[2J\\nb");
    expect(stdout).toContain("0ns");
    expect(stdout).not.toContain("Where the time went");
  });

  it("shows the most relevant of 5,000 spans, and counts the omitted ones", async () => {
    const spans = [
      traceSpan(0, "root", 0, 1_000, { criticalNs: 1 * ms }),
      ...Array.from({ length: 4_998 }, (_, index) => traceSpan(1 + (index % 2), `n${index}`, index / 5, 0.1)),
      traceSpan(1, "culprit", 900, 0.05, { status: "error" }),
    ];
    here.colony.tool("coral_query_traces", tracesResult({ trace: wholeTrace(spans) }));
    const { stdout } = await here.world.coral(`query traces ${traceId}`, { terminal: 100, env: { NO_COLOR: "1" } });
    expect(stdout).toContain("culprit ✗ failed");
    expect(stdout).toContain("5,000 spans");
    expect(stdout).toMatch(/└ … 4,\d{3} more spans, at most 100µs each/);
    expect(stdout.split("\n").length).toBeLessThan(420);
    const wide = await here.world.coral(`query traces ${traceId} -o wide`, { terminal: 100, env: { NO_COLOR: "1" } });
    expect(wide.stdout.split("\n").length).toBeGreaterThan(5_000);
    const few = await here.world.coral(`query traces ${traceId} --limit 10`, { terminal: 100, env: { NO_COLOR: "1" } });
    expect(few.stdout.split("\n").length).toBeLessThan(40);
    // All spans are requested: self times need them.
    expect(here.colony.calls.at(-1)?.body).toEqual({ traceId, limit: 5_000 });
  });

  it("folds repeated spans into one line", async () => {
    const query = (index: number) =>
      traceSpan(1, "SELECT", 10 + index * 3, 3, { dbStatement: "SELECT * FROM t WHERE id = ?", criticalNs: 3 * ms });
    const others = ["a", "b", "c", "d", "e"].map((name, index) => traceSpan(1, name, 105 + index, 1, { criticalNs: ms }));
    const spans = [
      traceSpan(0, "root", 0, 120, { criticalNs: 25 * ms }),
      ...Array.from({ length: 30 }, (_, index) => query(index)),
      ...others,
    ];
    here.colony.tool("coral_query_traces", tracesResult({ trace: wholeTrace(spans) }));
    const { stdout } = await here.world.coral(`query traces ${traceId}`, { terminal: 100, env: { NO_COLOR: "1" } });
    expect(stdout.split("Where the time went\n")[1]).toBe(
      [
        "   90ms    75%  30 × api  SELECT * FROM t WHERE id = ?",
        "   25ms    21%  api  root",
        "  1.0ms   0.8%  api  a",
        "  1.0ms   0.8%  api  b",
        "  1.0ms   0.8%  api  c",
        "  2.0ms  in 2 others",
        "",
      ].join("\n"),
    );
  });

  it("colours on a terminal only", async () => {
    here.colony.tool("coral_query_traces", tracesResult({ trace: checkout }));
    expect((await here.world.coral(`query traces ${traceId}`, { terminal: 100 })).stdout).toContain("\u001b[31m");
    expect((await here.world.coral(`query traces ${traceId}`)).stdout).not.toContain("\u001b");
  });

  it("exports spans as csv", async () => {
    here.colony.tool("coral_query_traces", tracesResult({ trace: checkout }));
    const { stdout } = await here.world.coral(`query traces ${traceId} -o csv`);
    expect(stdout.split("\n")[0]).toBe(
      "spanId,parentSpanId,depth,service,name,kind,startNs,durationNs,selfNs,criticalNs,status,statusMessage,httpStatusCode",
    );
    expect(stdout.trimEnd().split("\n")).toHaveLength(6);
  });
});

describe("chooseLines()", () => {
  const names = (max: number): string[] =>
    chooseLines(
      [
        traceSpan(0, "a", 0, 100, { criticalNs: 1 }),
        traceSpan(1, "b", 0, 10),
        traceSpan(2, "c", 0, 5),
        traceSpan(1, "d", 0, 50),
        traceSpan(2, "e", 0, 1, { criticalNs: 1 }),
        traceSpan(0, "f", 0, 2, { isOrphan: true }),
      ],
      max,
    ).map(({ span, depth, hidden }) => `${depth}${span ? span.name : `+${hidden?.spans}`}`);

  it.each([
    [6, ["0a", "1b", "2c", "1d", "2e", "0f"]],
    [4, ["0a", "1b", "2+1", "1d", "2e", "0+1"]],
    [3, ["0a", "1d", "2e", "1+2", "0+1"]],
    [1, ["0a", "1+4", "0+1"]],
    [0, ["0+6"]],
  ])("with room for %d", (max, expected) => {
    expect(names(max)).toEqual(expected);
  });
});

describe("treePrefixes()", () => {
  it("draws branches, and omits levels that do not fit", () => {
    const depths = [0, 1, 2, 2, 1, 2, 3, 0].map((depth) => ({ depth }));
    expect(treePrefixes(depths, 9)).toEqual(["", "├ ", "│ ├ ", "│ └ ", "└ ", "  └ ", "    └ ", ""]);
    expect(treePrefixes(depths, 2).at(6)).toBe("…   └ ");
  });
});
