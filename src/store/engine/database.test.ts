import { expect, test } from "vitest";
import { createLogger, silentLogger } from "../../base/log.ts";
import { smallDisk, temporaryFolder, testEngine } from "../store.fixture.ts";
import type { Database } from "./database.ts";
import { openEngine } from "./engine.ts";

const migrations = [{ version: 1, sql: "CREATE TABLE t (i BIGINT, s VARCHAR)" }];
const small = { blockBytes: 16_384, rowGroupRows: 8_192 };
const mebibyte = 1024 ** 2;

async function count(database: Database): Promise<unknown> {
  return (await database.query("SELECT count(*) AS n FROM t"))[0]?.["n"];
}

const insert = (database: Database, rows: number): Promise<number> =>
  database.write((transaction) => transaction.run(`INSERT INTO t SELECT range, uuid()::VARCHAR FROM range(${rows})`));

test("query() returns plain values: safe numbers, microseconds, lists, objects", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), []);
  const sql = `SELECT true AS b, -3::TINYINT AS i8, 200::UTINYINT AS u8, -300::SMALLINT AS i16, 60000::USMALLINT AS u16, -70000 AS i32,
    4000000000::UINTEGER AS u32, 9007199254740991 AS safe, 9007199254740993 AS unsafe, 18446744073709551615::UBIGINT AS u64,
    170141183460469231731687303715884105727::HUGEINT AS huge, 5::HUGEINT AS small_huge, 340282366920938463463374607431768211455::UHUGEINT AS uhuge,
    1.5::FLOAT AS f32, 0.1 :: DOUBLE AS f64, 12.34::DECIMAL(4,2) AS d16, 12.34::DECIMAL(9,2) AS d32, 12.34::DECIMAL(18,2) AS d64, -12.34::DECIMAL(38,2) AS d128,
    'short' AS short, 'a text of more than twelve bytes: é' AS long, 'x'::BLOB AS blob, NULL AS nothing, NULL::VARCHAR AS no_text,
    TIMESTAMP '2026-01-01 00:00:00.000001' AS at, TIMESTAMPTZ '2026-01-01 00:00:00+01' AS tz, TIMESTAMP_S '2026-01-01 00:00:00' AS at_s,
    TIMESTAMP_MS '2026-01-01 00:00:00.001' AS at_ms, TIMESTAMP_NS '2026-01-01 00:00:00.000001234' AS at_ns,
    DATE '2026-02-03' AS day, TIME '01:02:03.5' AS clock, INTERVAL '1 month 2 days 3 seconds' AS span,
    '00112233-4455-6677-8899-aabbccddeeff'::UUID AS uuid, [1, NULL, 3] AS list, []::INTEGER[] AS empty, [[1], [2, 3]] AS nested,
    [1, 2]::INTEGER[2] AS pair, {'a': 1, 'b': 'x'} AS struct, MAP {'k': 1} AS map, 'b'::ENUM('a', 'b') AS choice, '{"a": 1}'::JSON AS json`;
  const quoted = sql.replace(" AS at,", ' AS "at",');
  expect((await database.query(quoted))[0]).toEqual({
    ...{ b: true, i8: -3, u8: 200, i16: -300, u16: 60_000, i32: -70_000, u32: 4_000_000_000, safe: 9007199254740991 },
    ...{ unsafe: 9007199254740993n, u64: 18446744073709551615n, huge: 2n ** 127n - 1n, small_huge: 5, uhuge: 2n ** 128n - 1n },
    ...{ f32: 1.5, f64: 0.1, d16: 12.34, d32: 12.34, d64: 12.34, d128: -12.34 },
    ...{ short: "short", long: "a text of more than twelve bytes: é", blob: Uint8Array.of(120), nothing: null, no_text: null },
    ...{ at: 1767225600000001, tz: 1767222000000000, at_s: 1767225600000000, at_ms: 1767225600001000, at_ns: 1767225600000001 },
    ...{ day: "2026-02-03", clock: "01:02:03.500000", span: { months: 1, days: 2, micros: 3_000_000 } },
    ...{ uuid: "00112233-4455-6677-8899-aabbccddeeff", list: [1, null, 3], empty: [], nested: [[1], [2, 3]], pair: [1, 2] },
    ...{ struct: { a: 1, b: "x" }, map: [{ key: "k", value: 1 }], choice: "b", json: '{"a": 1}' },
  });
});

test("query() reads results of many chunks and binds by position and by name", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), []);
  const rows = await database.query("SELECT range AS i, 'a longer text ' || range AS s FROM range(5000)");
  expect(rows).toHaveLength(5_000);
  expect(rows[4_999]).toEqual({ i: 4_999, s: "a longer text 4999" });
  expect(await database.query("SELECT ? AS a, ? AS b, ? AS c, ?::BOOLEAN AS d", [1, 1.5, "x", null])).toEqual([
    { a: 1, b: 1.5, c: "x", d: null },
  ]);
  expect(await database.query("SELECT $n + $n AS twice", { n: 2n })).toEqual([{ twice: 4 }]);
  await expect(database.query("SELECT ?", [])).rejects.toMatchObject({ code: "invalid" });
  await expect(database.query("SELECT * FROM VALUES (1) x(BITSTRING), (SELECT '1'::BIT)")).rejects.toMatchObject({ code: "unsupported" });
});

test("write() commits what resolves and rolls back what rejects", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  expect(await insert(database, 3)).toBe(3);
  const failing = database.write(async (transaction) => {
    await transaction.run("DELETE FROM t");
    throw new Error("no");
  });
  await expect(failing).rejects.toThrow("no");
  expect(await count(database)).toBe(3);
  await expect(database.write((transaction) => transaction.run("INSERT INTO t VALUES ('x', 1)"))).rejects.toMatchObject({
    code: "invalid",
  });
  expect(await insert(database, 2)).toBe(2);
});

test("write() runs transactions one at a time, in order, and does not block readers", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  const order: string[] = [];
  const first = database.write(
    async (transaction) => {
      await transaction.run("INSERT INTO t VALUES (1, 'a')");
      order.push(`reader sees ${String(await count(database))}`);
    },
    () => order.push("first committed"),
  );
  const second = database.write(async (transaction) => {
    order.push(`second sees ${String((await transaction.query("SELECT count(*) AS n FROM t"))[0]?.["n"])}`);
  });
  await Promise.all([first, second]);
  expect(order).toEqual(["reader sees 0", "first committed", "second sees 1"]);
});

test("query() stops when its signal is aborted, and the connection stays usable", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), []);
  const endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b";
  for (const _ of [1, 2, 3]) {
    await expect(database.query(endless, [], AbortSignal.timeout(200))).rejects.toMatchObject({ code: "cancelled" });
  }
  await expect(database.query("SELECT 1", [], AbortSignal.abort())).rejects.toThrow();
  expect(await database.query("SELECT 1 AS one")).toEqual([{ one: 1 }]);
});

test("query() rejects more than 500 queued readers", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), []);
  const results = await Promise.allSettled(Array.from({ length: 510 }, () => database.query("SELECT 1")));
  const refused = results.filter((result) => result.status === "rejected");
  expect(refused).toHaveLength(8);
  expect(refused[0]?.reason).toMatchObject({ code: "exhausted" });
});

test("a query beyond the memory limit is `exhausted`, and the store stays usable", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  const hungry = "SELECT count(*) FROM (SELECT DISTINCT hash(range)::VARCHAR || repeat('x', 100) FROM range(20000000))";
  await expect(database.query(hungry)).rejects.toMatchObject({ code: "exhausted", message: expect.stringContaining("memory limit") });
  expect(await insert(database, 1)).toBe(1);
});

test("a write beyond the memory limit is `exhausted`, and the next one succeeds", async () => {
  using folder = temporaryFolder();
  await using engine = await openEngine({ dataDirectories: [folder.path], memoryLimitBytes: 16 * mebibyte, threads: 1, log: silentLogger });
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations, small);
  for (let round = 0; round < 3; round++) {
    const hungry = "INSERT INTO t SELECT DISTINCT range, hash(range)::VARCHAR || repeat('x', 100) FROM range(2000000)";
    await expect(database.write((transaction) => transaction.run(hungry))).rejects.toMatchObject({ code: "exhausted" });
    for (let part = 0; part < 10; part++) await insert(database, 1_000);
  }
  expect(await count(database)).toBe(30_000);
});

test("close() does not wait for a long query", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  await insert(database, 10);
  let isRunning: (() => void) | undefined;
  const running = new Promise<void>((resolve) => {
    isRunning = resolve;
  });
  const long = database.withConnection((connection) => {
    isRunning?.();
    return connection.query("SELECT count(*) FROM range(100000000000) a WHERE md5(a.range::VARCHAR) = ''");
  });
  const failure = long.then(
    () => null,
    (error: unknown) => error,
  );
  await running;
  await database.close();
  expect(await failure).toMatchObject({ code: "cancelled" });
});

test("a closed database reports that it is closed", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  await database.close();
  await database.close();
  await expect(database.query("SELECT 1")).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("closed") });
  await expect(insert(database, 1)).rejects.toMatchObject({ code: "unavailable" });
});

test("write() on a full disk is `unavailable`, keeps committed rows, and succeeds again after space is freed", async ({ skip }) => {
  const disk = smallDisk(3 * mebibyte);
  if (typeof disk === "string") return skip(disk);
  using _disk = disk;
  await using engine = await testEngine(disk.path);
  const database = await engine.attach("t", `${disk.path}/t.duckdb`, migrations, small);
  let stored = 0;
  let failure: unknown;
  while (failure === undefined && stored < 1_000_000) {
    try {
      await insert(database, 1_000);
      stored += 1_000;
    } catch (error) {
      failure = error;
    }
  }
  expect(failure).toMatchObject({
    code: "unavailable",
    message: expect.stringContaining(`no space left on the file system of "${disk.path}`),
  });
  expect(await count(database)).toBe(stored);
  disk.resize(16 * mebibyte);
  await insert(database, 1_000);
  await database.checkpoint();
  expect(await count(database)).toBe(stored + 1_000);
});

test("checkpoint() leaves an open transaction of another connection to the next checkpoint", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  await insert(database, 1);
  await database.withConnection(async (connection) => {
    await connection.run("BEGIN");
    await connection.run("UPDATE t.t SET s = 'changed'");
    await database.checkpoint();
    await connection.run("COMMIT");
  });
  await database.checkpoint();
  expect(await database.query("SELECT s FROM t.t")).toEqual([{ s: "changed" }]);
});

test("a failed checkpoint on a full disk loses nothing: the file is re-attached automatically", async ({ skip }) => {
  const disk = smallDisk(3 * mebibyte);
  if (typeof disk === "string") return skip(disk);
  using _disk = disk;
  await using engine = await testEngine(disk.path);
  const database = await engine.attach("t", `${disk.path}/t.duckdb`, migrations, small);
  while ((await database.size()).walBytes < 2.2 * mebibyte) await insert(database, 1_000);
  const stored = await count(database);
  await expect(database.checkpoint()).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("no space left") });
  // Readers and the writer can use the file again, several at once.
  expect(await Promise.all([count(database), count(database), count(database)])).toEqual([stored, stored, stored]);
  await insert(database, 10);
  await expect(database.checkpoint()).rejects.toMatchObject({ code: "unavailable" });
  await insert(database, 10);
  disk.resize(32 * mebibyte);
  await database.checkpoint();
  expect(await count(database)).toBe(Number(stored) + 20);
  expect((await database.size()).walBytes).toBe(0);
});

test("write() counts as committed when only the checkpoint after it failed", async ({ skip }) => {
  const disk = smallDisk(3 * mebibyte);
  if (typeof disk === "string") return skip(disk);
  using _disk = disk;
  const lines: string[] = [];
  const log = createLogger("test", "warn", ({ message }) => lines.push(message));
  // A commit triggers a checkpoint when the log exceeds a share of the memory limit.
  await using engine = await openEngine({ dataDirectories: [disk.path], memoryLimitBytes: 6 * mebibyte, threads: 1, log });
  const database = await engine.attach("t", `${disk.path}/t.duckdb`, migrations, small);
  let stored = 0;
  for (let attempt = 0; attempt < 400; attempt++) stored += await insert(database, 500).catch(() => 0);
  expect(stored).toBeLessThan(200_000);
  expect(lines).toContain("re-attached the store: DuckDB had invalidated it");
  expect(await count(database)).toBe(stored);
  disk.resize(64 * mebibyte);
  await insert(database, 1_000);
  expect(await count(database)).toBe(stored + 1_000);
});
