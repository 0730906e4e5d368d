import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { PublishedDatabase } from "./read-only-sql.fixture.ts";

let published: PublishedDatabase;
const run: PublishedDatabase["run"] = (...given) => published.run(...given);
const failure: PublishedDatabase["failure"] = (...given) => published.failure(...given);

beforeAll(async () => {
  published = await PublishedDatabase.open();
});
afterAll(() => published[Symbol.asyncDispose]());

/** The file is in the directory that DuckDB may read, so only the guard protects it. */
const fileReads = (file: string): string[] => [
  `SELECT * FROM '${file}'`,
  `FROM '${file}'`,
  `SELECT * FROM "${file}"`,
  `SELECT * FROM "/etc/passwd"`,
  `SELECT * FROM read_csv('${file}')`,
  `SELECT * FROM read_csv_auto(['${file}'])`,
  `SELECT * FROM read_text('${file}')`,
  `SELECT * FROM read_blob('${file}')`,
  `SELECT * FROM read_json('${file}')`,
  `SELECT * FROM read_json_objects('${file}')`,
  `SELECT * FROM read_ndjson('${file}')`,
  `SELECT * FROM read_parquet('${file}')`,
  `SELECT * FROM parquet_scan('${file}')`,
  `SELECT * FROM parquet_metadata('${file}')`,
  `SELECT * FROM parquet_schema('${file}')`,
  `SELECT * FROM read_duckdb('${file}')`,
  `SELECT * FROM sniff_csv('${file}')`,
  `SELECT * FROM glob('/*')`,
  `SELECT * FROM system.main.read_text('${file}')`,
  `SELECT * FROM main.read_text('${file}')`,
  `SELECT (SELECT content FROM read_text('${file}'))`,
  `SELECT * FROM host WHERE agent_id IN (SELECT secret FROM '${file}')`,
  `SELECT * FROM host ORDER BY (SELECT count(*) FROM '${file}')`,
  `SELECT * FROM host LIMIT (SELECT count(*) FROM '${file}')`,
  `SELECT count(*) FROM host GROUP BY (SELECT count(*) FROM '${file}')`,
  `SELECT count(*) FROM host HAVING count(*) > (SELECT count(*) FROM '${file}')`,
  `SELECT sum(1) OVER (ORDER BY (SELECT count(*) FROM '${file}')) FROM host`,
  `SELECT sum(1) FILTER (WHERE EXISTS (FROM '${file}')) FROM host`,
  `SELECT row_number() OVER () FROM host QUALIFY (SELECT true FROM '${file}')`,
  `SELECT CASE WHEN true THEN (SELECT secret FROM '${file}') END`,
  `SELECT * FROM host JOIN host_mount ON (SELECT true FROM '${file}')`,
  `SELECT * FROM host, LATERAL (SELECT * FROM '${file}')`,
  `SELECT * FROM range((SELECT count(*) FROM '${file}'))`,
  `WITH x AS (SELECT * FROM '${file}') SELECT * FROM x`,
  `WITH RECURSIVE x AS (SELECT secret FROM '${file}' UNION ALL SELECT * FROM x) SELECT * FROM x`,
  `WITH x AS (WITH y AS (WITH z AS (FROM '${file}') FROM z) FROM y) FROM x`,
  `WITH "${file}" AS (SELECT 1) SELECT * FROM "${file}"`,
  `SELECT 1 UNION SELECT secret FROM '${file}'`,
  `VALUES ((SELECT secret FROM '${file}'))`,
  `DESCRIBE SELECT * FROM '${file}'`,
  `SUMMARIZE '${file}'`,
  `FROM '${file}' PIVOT (count(*) FOR secret IN ('a'))`,
  `SELECT * FROM (SUMMARIZE SELECT * FROM '${file}')`,
  `SELECT [(SELECT secret FROM '${file}')]`,
  `SELECT {'a': (SELECT secret FROM '${file}')}`,
  `SELECT COLUMNS((SELECT secret FROM '${file}')) FROM host`,
];

const otherAttacks: string[] = [
  "SELECT * FROM tokens",
  "SELECT * FROM main.tokens",
  "SELECT * FROM colony.main.tokens",
  "SELECT * FROM colony.tokens",
  "SELECT * FROM internal_view",
  'SELECT * FROM "tokens"',
  "SELECT * FROM TOKENS",
  "SELECT * FROM main.host",
  "SELECT * FROM colony.main.host",
  "TABLE tokens",
  "DESCRIBE tokens",
  "SHOW tokens",
  "SUMMARIZE tokens",
  "SELECT leak()",
  "SELECT main.leak()",
  "SELECT colony.main.leak()",
  "WITH tokens AS (SELECT * FROM tokens) SELECT * FROM tokens",
  "SELECT * FROM (WITH tokens AS (SELECT 1) FROM tokens), tokens",
  "WITH RECURSIVE tokens AS (SELECT id FROM tokens UNION ALL SELECT id FROM tokens) FROM tokens",
  "WITH tokens AS (SELECT 1) SELECT * FROM tokens",
  "SELECT * FROM recurring.tokens",
  "SELECT * FROM information_schema.tables",
  "SELECT * FROM sqlite_master",
  "SELECT * FROM duckdb_tables",
  "SELECT * FROM duckdb_tables()",
  "SELECT * FROM duckdb_settings()",
  "SELECT * FROM duckdb_secrets()",
  "SELECT * FROM pg_catalog.pg_tables",
  "SELECT * FROM pragma_table_info('tokens')",
  "SELECT * FROM pragma_database_size()",
  "SELECT * FROM query('SELECT * FROM tokens')",
  "SELECT * FROM query_table('tokens')",
  "SELECT * FROM query_table(['tokens'])",
  `SELECT * FROM json_execute_serialized_sql('{"statements":[]}')`,
  "SELECT json_serialize_sql('SELECT 1')",
  "SELECT getenv('HOME')",
  "SELECT getvariable('x')",
  "SELECT current_setting('memory_limit')",
  "SELECT nextval('numbers')",
  "SELECT currval('numbers')",
  "SELECT write_log('x')",
  "SELECT sleep_ms(100000)",
  "SELECT pg_sleep(100)",
  "SELECT * FROM checkpoint()",
  "SELECT * FROM enable_logging()",
  "SELECT * FROM summary((SELECT 1))",
  "SELECT * FROM seq_scan('tokens')",
  "SELECT * FROM arrow_scan(1, 2, 3)",
  "SELECT * FROM which_secret('x', 'y')",
  "ATTACH ':memory:' AS other",
  "DETACH colony",
  "COPY host TO '/tmp/stolen.csv'",
  "COPY (SELECT 1) TO '/tmp/stolen.csv'",
  "EXPORT DATABASE '/tmp/stolen'",
  "IMPORT DATABASE '/tmp/stolen'",
  "INSTALL httpfs",
  "LOAD httpfs",
  "SET memory_limit = '100GB'",
  "RESET memory_limit",
  "PRAGMA database_list",
  "CALL pragma_version()",
  "CREATE TABLE x (a INT)",
  "CREATE TEMP TABLE x AS SELECT 1",
  "CREATE MACRO f() AS 1",
  "CREATE OR REPLACE VIEW host AS SELECT 1",
  "DROP TABLE tokens",
  "ALTER TABLE tokens ADD COLUMN x INT",
  "INSERT INTO tokens VALUES ('a', 'b')",
  "UPDATE tokens SET secret = 'x'",
  "DELETE FROM tokens",
  "TRUNCATE tokens",
  "MERGE INTO tokens USING host ON true WHEN MATCHED THEN DELETE",
  "WITH x AS (DELETE FROM tokens RETURNING *) SELECT * FROM x",
  "BEGIN TRANSACTION",
  "COMMIT",
  "CHECKPOINT",
  "VACUUM",
  "USE main",
  "PREPARE p AS SELECT 1",
  "EXECUTE p",
  "EXPLAIN SELECT 1",
  "EXPLAIN ANALYZE SELECT * FROM host",
  "SELECT 1; SELECT 2",
  "SELECT 1; DROP TABLE tokens",
  "SELECT 1 /* ; */ ; -- \n DELETE FROM tokens",
  "/* SELECT 1 */ DROP TABLE tokens",
  "SHOW DATABASES",
  "SHOW SCHEMAS",
  "SELECT * FROM (SHOW TABLES)",
  "SELECT * FROM (SHOW ALL TABLES)",
  "PIVOT host ON agent_id USING count(*)",
  "SELECT $1",
  "SELECT ?",
  "SELECT list_transform([1], x -> x + 1)",
  "SELECT [x FOR x IN [1, 2]]",
  "SELECT list_reduce([1, 2], (a, b) -> a + b)",
  "SELECT repeat('x', 2000000000)",
  "SELECT repeat('x', (SELECT 2000000000))",
  "SELECT lpad('x', 2000000000, 'y')",
  "SELECT replace(repeat('a', 1000), 'a', repeat('b', 1000))",
  "SELECT replace(replace(replace(agent_id, 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa') FROM host",
  "SELECT range(2000000000)",
  "SELECT range(TIMESTAMP '1970-01-01', now()::TIMESTAMP, INTERVAL 1 MICROSECOND)",
  "SELECT printf('%1000000000d', 1)",
  "SELECT format('{:>1000000000}', 'x')",
  "SELECT format('{:>{}}', 'x', 1000000000)",
  "SELECT levenshtein(agent_id, agent_id) FROM host",
  "SELECT length(s || a.range) FROM range(10000) a, (SELECT string_agg(range::VARCHAR, '') AS s FROM range(1000000))",
  "SELECT len(x || [1]) FROM (SELECT (SELECT list(range) FROM range(1000000)) AS x FROM range(10000))",
  "WITH l AS (SELECT list(range) AS l FROM range(1000000)) SELECT length(l::VARCHAR) FROM l JOIN range(10000) ON true",
  "SELECT list(range) OVER (ORDER BY range) FROM range(100000)",
  "SELECT unnest(range(10000)), list(range)::VARCHAR FROM range(1000000)",
  "SELECT x, l::VARCHAR FROM (SELECT max(range, 1000000) AS l FROM range(1000000)), LATERAL unnest(range(10000)) t(x)",
  `WITH ${Array.from({ length: 9 }, (_, index) => `a${index + 1} AS (SELECT [x, x, x, x]::VARCHAR AS x FROM ${index === 0 ? "(SELECT agent_id AS x FROM host)" : `a${index}`})`).join(", ")} FROM a9`,
  "WITH RECURSIVE t(s) AS (SELECT 'x' UNION ALL SELECT s || s || s || s || s FROM t) SELECT * FROM t",
];

const oversized: [string, string][] = [
  ["a deep expression", `SELECT ${"1 + ".repeat(500)}1`],
  ["deep subqueries", `SELECT ${"(SELECT ".repeat(150)}1${")".repeat(150)}`],
  ["many queries", `SELECT 1 ${"UNION ALL SELECT 1 ".repeat(1_000)}`],
  ["a megabyte", `SELECT '${"x".repeat(1_000_000)}'`],
  ["a long literal that grows", `SELECT '${"x".repeat(20_000)}' || time || agent_id || cpu_busy_ratio || agent_id FROM host`],
];

describe("runReadOnlySql() rejects", () => {
  it("every way to read a file", async () => {
    for (const sql of fileReads(published.secretFile)) {
      const error = await failure(sql);
      expect([sql, error.code]).toEqual([sql, "not-permitted"]);
    }
  });

  it.each(otherAttacks)("%s", async (sql) => {
    const error = await failure(sql);
    expect(error.message).not.toContain("hidden");
    expect(["not-permitted", "invalid"]).toContain(error.code);
  });

  it.each(oversized)("%s", async (_name, sql) => {
    expect((await failure(sql)).code).toBe("not-permitted");
  });

  it("with a message that says what is allowed", async () => {
    const error = await failure("SELECT * FROM tokens");
    expect(error.message).toBe(
      'Cannot run SQL: "tokens" is not a published view; one SELECT or DESCRIBE over the published views is allowed, and SHOW TABLES lists them',
    );
    expect(error.details["views"]).toEqual(["host", "host_mount"]);
    expect((await failure("SELECT * FROM hosts")).message).toContain('"hosts" is not a published view; did you mean "host"? one SELECT');
    expect((await failure("PIVOT host ON agent_id USING count(*)")).message).toContain("PIVOT (sum(x) FOR name IN ('a', 'b'))");
    expect((await failure("SELECT 1; SELECT 2")).message).toContain("2 statements");
  });

  it("wrong SQL as invalid, with the engine's hint", async () => {
    const error = await failure("SELECT cpu_busy FROM host");
    expect(error.code).toBe("invalid");
    expect(error.message).toMatch(
      /^Cannot run SQL: Referenced column "cpu_busy" not found in FROM clause; Candidate bindings: .*"cpu_busy_ratio"[^\n]*$/,
    );
    expect((await failure("SELEC 1")).message).toContain("syntax error");
    expect((await failure("  -- nothing")).message).toContain("no statement");
    expect((await failure("")).code).toBe("invalid");
  });
});

describe("runReadOnlySql() fuzzed", () => {
  /** A linear congruential generator: the same statements on every run. */
  function seeded(seed: number): (below: number) => number {
    let state = seed;
    return (below) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
  }

  it("never reveals a secret and never fails with an unknown error", async () => {
    const words =
      `SELECT * FROM WITH AS ( ( ) ) , host tokens main.tokens x secret id WHERE IN UNION ALL JOIN ON true LATERAL unnest([1]) read_text('f') 'f' "f"
      RECURSIVE VALUES DESCRIBE SUMMARIZE SHOW ORDER BY 1 LIMIT OVER () count(*) [ ] { } : :: VARCHAR COLUMNS EXISTS NOT - + || ; -- /* */ $1 ? leak() query('x')`.split(
        /\s+/,
      );
    const next = seeded(42);
    const codes = new Set<string>();
    for (let round = 0; round < 2_000; round++) {
      const sql = Array.from({ length: 1 + next(14) }, () => words[next(words.length)]).join(" ");
      try {
        expect(JSON.stringify(await run(`${round % 2 === 0 ? "SELECT " : ""}${sql}`))).not.toContain("hidden");
        codes.add("ran");
      } catch (error) {
        if (!(error instanceof CoralError)) throw error;
        expect(error.message).not.toContain("hidden");
        codes.add(error.code);
      }
    }
    expect([...codes].sort()).toEqual(["invalid", "not-permitted", "ran"]);
  });
});
