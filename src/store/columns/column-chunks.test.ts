import { expect, test } from "vitest";
import { temporaryFolder, testEngine } from "../store.fixture.ts";
import { TableAppender, type TableTarget } from "./column-chunks.ts";

const migrations = [{ version: 1, sql: "CREATE TABLE t (n UBIGINT, c UINTEGER)" }];
const target: TableTarget = { database: "t", schema: "main", table: "t", types: [9, 8] };

test("rows of a failed transaction do not reach the next one", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  const append = (first: number, rows: number, fail: boolean): Promise<void> =>
    database.write(async ({ connection }) => {
      const appender = TableAppender.of(connection, target);
      appender.append(
        [
          { kind: "sequence", first },
          { kind: "constant", value: 7n, widthBytes: 4 },
        ],
        rows,
      );
      if (fail) throw new Error("given up before the flush");
      appender.flush();
    });
  await append(1, 3_000, false);
  await expect(append(100_000, 3_000, true)).rejects.toThrow("given up");
  await append(3_001, 10, false);
  expect(await database.query("SELECT count(*) AS rows, max(n) AS last, min(c) AS low, max(c) AS high FROM t")).toEqual([
    { rows: 3_010, last: 3_010, low: 7, high: 7 },
  ]);
});

test("TableAppender.append() rejects a wrong number of columns", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const database = await engine.attach("t", folder.file("t.duckdb"), migrations);
  const short = database.write(async ({ connection }) => {
    TableAppender.of(connection, target).append([{ kind: "null" }], 1);
  });
  await expect(short).rejects.toThrow("1 columns for a table of 2");
});
