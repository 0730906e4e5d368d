import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CoralError } from "../../base/errors.ts";
import { PublishedDatabase } from "./read-only-sql.fixture.ts";

let published: PublishedDatabase;
const run: PublishedDatabase["run"] = (...given) => published.run(...given);
const failure: PublishedDatabase["failure"] = (...given) => published.failure(...given);

beforeAll(async () => {
  published = await PublishedDatabase.open();
});
afterAll(() => published[Symbol.asyncDispose]());

const good: [string, unknown[][]][] = [
  ["SELECT 1", [[1]]],
  ["SELECT 1;", [[1]]],
  ["-- a comment\nSELECT /* another */ 1", [[1]]],
  ["VALUES (1, 'a'), (2, 'b')", [[1, "a"], [2, "b"]]], // biome-ignore format: a row a line would hide the shape
  ["SELECT count(*) FROM host", [[3000]]],
  ["FROM host SELECT count(*)", [[3000]]],
  ["SELECT count(*) FROM views.host", [[3000]]],
  ["SELECT count(*) FROM HOST", [[3000]]],
  ["SELECT agent_id, count(*) FROM host GROUP BY ALL ORDER BY 1 LIMIT 1", [["agent-0", 1000]]],
  ["SELECT max(time) FROM host", [["2026-01-01T12:29:45.000Z"]]],
  ["WITH busy AS (SELECT * FROM host WHERE cpu_busy_ratio > 0.8) SELECT count(*) FROM busy", [[300]]],
  ["WITH host AS (SELECT * FROM host LIMIT 5) SELECT count(*) FROM host", [[5]]],
  ["WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT sum(n) FROM t", [[10]]],
  ["SELECT count(*) FROM host a JOIN host_mount b USING (agent_id) WHERE a.time < TIMESTAMP '2026-01-01 00:00:30'", [[2000]]],
  [
    "SELECT time_bucket(INTERVAL 6 HOUR, time) AS t, round(avg(cpu_busy_ratio), 2) FROM host GROUP BY t ORDER BY t LIMIT 1",
    [["2026-01-01T00:00:00.000Z", 0.45]],
  ],
  ["SELECT arg_max(cpu_busy_ratio, time), quantile_cont(cpu_busy_ratio, 0.5) FROM host", [[0.9, 0.45]]],
  [
    "SELECT agent_id, lag(cpu_busy_ratio) OVER (PARTITION BY agent_id ORDER BY time) FROM host ORDER BY time OFFSET 3 LIMIT 1",
    [["agent-0", 0]],
  ],
  ["SELECT range, unnest([10, 20]) FROM range(2) ORDER BY ALL LIMIT 3", [[0, 10], [0, 20], [1, 10]]], // biome-ignore format: as above
  ["SELECT count(*) FROM generate_series(TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02', INTERVAL 1 HOUR)", [[25]]],
  [
    "SELECT * FROM (SELECT agent_id, cpu_busy_ratio > 0.5 AS hot FROM host) PIVOT (count(*) FOR hot IN (true, false)) ORDER BY 1 LIMIT 1",
    [["agent-0", 400, 600]],
  ],
  ["SELECT * EXCLUDE (time, cpu_busy_ratio) FROM host LIMIT 1", [["agent-0"]]],
  ["SELECT COLUMNS(c -> c LIKE 'agent%') FROM host LIMIT 1", [["agent-0"]]],
  ["SELECT CASE WHEN EXISTS (SELECT 1 FROM host) THEN 'yes' ELSE 'no' END", [["yes"]]],
  [
    "SELECT printf('%.1f', 2.25), format('{:.1f}', 2.25), repeat('-', 10), lpad('7', 3, '0'), replace('a_b', '_', ' ')",
    [["2.2", "2.2", "----------", "007", "a b"]],
  ],
  ["SELECT json_extract_string('{\"a\": {\"b\": 1}}', '$.a.b'), '{\"a\": 1}'::JSON ->> 'a'", [["1", "1"]]],
  ["SELECT agent_id || ':' || cpu_busy_ratio FROM host LIMIT 1", [["agent-0:0.0"]]],
  ["SELECT list_sum([1, 2]), len(range(24)), list_sort(list(DISTINCT agent_id))[1] FROM host", [[3, 24, "agent-0"]]],
  [
    "SELECT agent_id || '/' || agent_id || '/' || agent_id || '/' || time || '/' || cpu_busy_ratio || '/' || agent_id FROM host WHERE false",
    [],
  ],
  [
    "SELECT string_agg(DISTINCT h.agent_id, ', ' ORDER BY h.agent_id) FROM host h JOIN host_mount m USING (agent_id) WHERE h.time = TIMESTAMP '2026-01-01'",
    [["agent-0"]],
  ],
  ["WITH g AS (SELECT agent_id, list(cpu_busy_ratio) AS l FROM host GROUP BY 1) SELECT sum(len(l)) FROM g", [[3000]]],
  ["SELECT count(*) FROM host TABLESAMPLE 100%", [[3000]]],
  ["SELECT x FROM (SELECT 1 AS x UNION ALL SELECT 2 EXCEPT SELECT 1) ORDER BY x DESC", [[2]]],
];

describe("runReadOnlySql() returns", () => {
  it.each(good)("%s", async (sql, rows) => {
    expect((await run(sql)).rows).toEqual(rows);
  });

  it("SHOW TABLES and DESCRIBE from the published catalog", async () => {
    expect((await run("show tables")).rows).toEqual([
      ["host", "one row per agent every 15 s"],
      ["host_mount", "mounts"],
    ]);
    expect((await run("SHOW ALL TABLES;")).rows).toHaveLength(2);
    const described = await run("DESCRIBE host");
    expect(described.columns.map((column) => column.name)).toEqual(["column_name", "column_type", "meaning"]);
    expect(described.rows[1]).toEqual(["time", "TIMESTAMP", "When it was observed, by the agent's clock, in UTC"]);
    expect((await run("describe select count(*) as n from host")).rows[0]?.slice(0, 2)).toEqual(["n", "BIGINT"]);
    expect((await run("SUMMARIZE host")).rows.map((row) => row[0])).toEqual(["agent_id", "time", "cpu_busy_ratio"]);
  });

  it("column types and the views that were read", async () => {
    const result = await run(
      "SELECT h.agent_id, [1]::BIGINT[] AS l, 1.5::DECIMAL(9,2) AS d, {'a': 1} AS s, MAP {'k': 1} AS m FROM host h, host_mount LIMIT 1",
    );
    expect(result.columns).toEqual([
      { name: "agent_id", type: "VARCHAR" },
      { name: "l", type: "BIGINT[]" },
      { name: "d", type: "DECIMAL(9,2)" },
      { name: "s", type: "STRUCT(a INTEGER)" },
      { name: "m", type: "MAP(VARCHAR, INTEGER)" },
    ]);
    expect(result.views).toEqual(["host", "host_mount"]);
    expect(result.rows[0]?.slice(1)).toEqual([[1], 1.5, { a: 1 }, { k: 1 }]);
    expect(result.elapsedMs).toBeGreaterThanOrEqual(0);
  });

  it("values that JSON can represent", async () => {
    const [row] = (
      await run(`SELECT 9007199254740991, 9007199254740993, -170141183460469231731687303715884105727::HUGEINT, 'NaN'::DOUBLE, 'Infinity'::DOUBLE, '-Infinity'::FLOAT,
        TIMESTAMP '2026-01-02 03:04:05.000006', TIMESTAMPTZ '2026-01-02 03:04:05+01', DATE '2026-01-02', TIME '03:04:05.5', INTERVAL '1 month 2 days 3.5 seconds',
        '\\xAA\\x01'::BLOB, 12345678901234567.89::DECIMAL(19,2), -0.05::DECIMAL(4,2), NULL, [NULL, 'x'], MAP {1: 'a'}, 'a'::ENUM('a', 'b'), true,
        '5f8a5f39-7d8c-4b5f-9d3c-000000000001'::UUID, TIMESTAMP '1969-12-31 23:59:59.999999', 'infinity'::TIMESTAMP, {'a': [{'b': 'ü'}]}`)
    ).rows;
    expect(row).toEqual([
      9007199254740991,
      "9007199254740993",
      "-170141183460469231731687303715884105727",
      null,
      "Infinity",
      "-Infinity",
      "2026-01-02T03:04:05.000006Z",
      "2026-01-02T02:04:05.000Z",
      "2026-01-02",
      "03:04:05.500000",
      "P1M2DT3.5S",
      "aa01",
      "12345678901234567.89",
      -0.05,
      null,
      [null, "x"],
      [[1, "a"]],
      "a",
      true,
      "5f8a5f39-7d8c-4b5f-9d3c-000000000001",
      "1969-12-31T23:59:59.999999Z",
      "infinity",
      { a: [{ b: "ü" }] },
    ]);
    expect(JSON.parse(JSON.stringify(row))).toEqual(row);
    expect((await failure("SELECT '101'::BIT")).message).toContain("cast it to VARCHAR");
  });
});

describe("runReadOnlySql() limits", () => {
  it("rows, without reading the rest", async () => {
    const result = await run("SELECT range FROM range(1000000000000)", { maxRows: 5000 });
    expect(result.rows).toHaveLength(5000);
    expect(result.truncated).toBe(true);
    expect((await run("SELECT range FROM range(10)", { maxRows: 10 })).truncated).toBe(false);
    expect((await run("SELECT range FROM range(11)", { maxRows: 10 })).truncated).toBe(true);
  });

  it("bytes, also inside one value", async () => {
    const result = await run("SELECT repeat('x', 1000) FROM range(1000)", { maxRows: 1000, maxBytes: 50_000 });
    expect(result.truncated).toBe(true);
    expect(result.rows.length).toBeGreaterThan(30);
    expect(JSON.stringify(result.rows).length).toBeLessThan(60_000);
    const error = await failure("SELECT list(range) FROM range(1000000)", { maxBytes: 50_000 });
    expect(error.code).toBe("exhausted");
    expect(error.message).toContain("first row");
  });

  it.each([
    "SELECT count(*) FROM range(100000000000) a WHERE md5(a.range::VARCHAR) = ''",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT 1 FROM t) SELECT count(*) FROM t",
  ])("time: %s", async (sql) => {
    const startMs = performance.now();
    const error = await failure(sql, { timeoutMs: 200 });
    expect(error.code).toBe("timeout");
    expect(error.message).toContain("200ms");
    // Without the limit it would run for hours.
    expect(performance.now() - startMs).toBeLessThan(60_000);
    expect((await run("SELECT 1")).rows).toEqual([[1]]);
  });

  // Each spends its time in one call, where DuckDB does not check for interrupts.
  it.each([
    "SELECT repeat('a', 1000) LIKE '%a_%a_%a_%a_%a_%a_%b'",
    "SELECT count(*) FROM host WHERE repeat(agent_id, 1000) LIKE '%a_%a_%a_%a_%a_%a_%b'",
    "SELECT repeat('a', 1000) NOT ILIKE '%A_%a_%a_%a_%a_%a_%b'",
    "SELECT repeat('a', 1000) GLOB '*a?*a?*a?*a?*a?*a?*b'",
    "SELECT like_escape(repeat('a', 1000), '%a_%a_%a_%a_%a_%a_%b', '$')",
    `SELECT ${"+".repeat(4000)}1`,
    `SELECT ${"/*".repeat(30_000)}`,
    `WITH ${Array.from({ length: 26 }, (_, at) => `c${at} AS (SELECT * FROM ${at === 0 ? "host" : `c${at - 1} UNION ALL SELECT * FROM c${at - 1}`})`).join(", ")} SELECT count(*) FROM c25 WHERE agent_id LIKE '%a%b%'`,
  ])("time, also for statements that cannot be interrupted: %s", async (sql) => {
    await run("SELECT 1");
    const startMs = performance.now();
    const stuck = failure(sql, { timeoutMs: 1_500 });
    expect((await run("SELECT count(*) FROM host")).rows).toEqual([[3000]]);
    expect((await run("SELECT quantile_cont(cpu_busy_ratio, 0.5) FROM host")).rows).toEqual([[0.45]]);
    expect(["timeout", "exhausted", "not-permitted", "invalid"]).toContain((await stuck).code);
    // The limit, plus 0.9 s until the process is killed, plus delays of a busy machine. Without the kill it would run for hours.
    expect(performance.now() - startMs).toBeLessThan(60_000);
  });

  it.each([
    "SELECT list(range) FROM range(1000000000)",
    "SELECT md5(range::VARCHAR) AS k, count(*) FROM range(1000000000) GROUP BY k",
    "SELECT count(*) FROM range(100000000000) a, range(100000000) b",
    "SELECT * FROM range(1000000000) ORDER BY random()",
    // Uses memory that DuckDB does not count; the growth of the process triggers the limit.
    "SELECT count(*) FROM (SELECT * FROM range(1000000000) USING SAMPLE reservoir(500000000 ROWS))",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t, range(5)) SELECT count(*) FROM t",
    "SELECT count(*) FROM host a, host b, host c, host d WHERE a.cpu_busy_ratio + b.cpu_busy_ratio + c.cpu_busy_ratio > d.cpu_busy_ratio",
  ])(
    "memory, and the process survives: %s",
    async (sql) => {
      const error = await failure(sql, { timeoutMs: 25_000 });
      expect(error.code).toBe("exhausted");
      expect(error.message).toContain("filter earlier");
      expect((await run("SELECT count(*) FROM host")).rows).toEqual([[3000]]);
    },
    60_000,
  );

  it("cancellation by the caller's signal", async () => {
    const abort = new AbortController();
    const running = failure("SELECT count(*) FROM range(100000000000) a WHERE md5(a.range::VARCHAR) = ''", { signal: abort.signal });
    setTimeout(() => abort.abort(), 100);
    expect((await running).code).toBe("cancelled");
  });

  it("the number of queued statements", async () => {
    const slow = "SELECT count(*) FROM range(100000000000) a WHERE md5(a.range::VARCHAR) = ''";
    const options = { maxRows: 1, maxBytes: 1_000, timeoutMs: 50 };
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => run(slow, options)));
    const codes = outcomes.map((outcome) => (outcome.status === "rejected" ? (outcome.reason as CoralError).code : "ran"));
    expect(codes.filter((code) => code === "timeout")).toHaveLength(18);
    expect(codes.filter((code) => code === "unavailable")).toHaveLength(2);
  });
});
