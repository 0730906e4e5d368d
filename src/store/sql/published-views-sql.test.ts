import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStoredHosts, type StoredHosts } from "../queries/stored-hosts.fixture.ts";
import { runReadOnlySql } from "./read-only-sql.ts";

let hosts: StoredHosts;

beforeAll(async () => {
  hosts = await openStoredHosts();
  await hosts.add("web-1", { host: [{ atMs: Date.now() - 60_000, cpu_busy_ratio: 0.5 }] });
  await hosts.store.rollup();
});

afterAll(() => hosts[Symbol.asyncDispose]());

const run = (sql: string) => runReadOnlySql(hosts.store, { sql, maxRows: 100, maxBytes: 1_000_000, timeoutMs: 20_000 });

describe("runReadOnlySql() over a colony's store", () => {
  it("reads every published view, and describes it correctly", async () => {
    const views = hosts.store.publishedViews();
    expect((await run("SHOW TABLES")).rows.map((row) => row[0])).toEqual(views.map((view) => view.name));
    for (const { name, columns } of views) {
      const result = await run(`SELECT * FROM ${name}`);
      expect([name, result.columns]).toEqual([name, columns]);
      // Not plain: the same rows, read by another process.
      const copied = await run(`SELECT * FROM ${name} WHERE 'a' ILIKE 'A'`);
      expect([name, copied.columns, copied.rows]).toEqual([name, columns, result.rows]);
      expect((await run(`DESCRIBE ${name}`)).rows).toEqual(
        columns.map((column) => [column.name, column.type, expect.stringMatching(/\w/)]),
      );
    }
  });

  it("reads rows and roll-ups by time", async () => {
    expect((await run("SELECT agent_id, cpu_busy_ratio FROM host WHERE time > now() - INTERVAL 5 MINUTE")).rows).toEqual([["web-1", 0.5]]);
    expect((await run("SELECT agent_id, cpu_busy_ratio_max FROM host_1m")).rows).toEqual([["web-1", 0.5]]);
  });

  it("cannot read anything else in the file", async () => {
    const tables = await hosts.store.query("SELECT DISTINCT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'colony'");
    expect(tables.length).toBeGreaterThan(10);
    for (const { schema_name: schema, table_name: table } of tables) {
      await expect(run(`SELECT * FROM ${String(schema)}."${String(table)}"`)).rejects.toThrow("is not a published view");
      await expect(run(`SELECT * FROM colony.${String(schema)}."${String(table)}"`)).rejects.toThrow("is not a published view");
    }
  });
});
