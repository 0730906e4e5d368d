import { describe, expect, it } from "vitest";
import { mysqlStatement, postgresStatement } from "./explainable.ts";
import { indexAdvice } from "./index-advice.ts";

describe("postgresStatement() and mysqlStatement()", () => {
  it.each([
    [
      "SELECT * FROM orders WHERE user_id = ? LIMIT ?",
      "SELECT * FROM orders WHERE user_id = $1 LIMIT $2",
      "SELECT * FROM orders WHERE user_id = '1' LIMIT 1",
    ],
    ["INSERT INTO t VALUES (?)", "INSERT INTO t VALUES ($1)", "INSERT INTO t VALUES ('1')"],
    [`SELECT "?" FROM t WHERE a = ?`, `SELECT "?" FROM t WHERE a = $1`, `SELECT "?" FROM t WHERE a = '1'`],
    [
      "SELECT a FROM t WHERE b > now() - INTERVAL ?",
      "SELECT a FROM t WHERE b > now() - INTERVAL '1 day'",
      "SELECT a FROM t WHERE b > now() - INTERVAL 1",
    ],
  ])("fill %s", (template, postgres, mysql) => {
    expect(postgresStatement(template)).toBe(postgres);
    expect(mysqlStatement(template)).toBe(mysql);
  });

  it.each([
    "DROP TABLE t",
    "COPY t TO PROGRAM ?",
    "SELECT a FROM t WHERE b = ? AND c…",
    "BEGIN",
    "unknown",
    "EXPLAIN ANALYZE DELETE FROM t",
  ])("reject %s", (template) => {
    expect(postgresStatement(template)).toBeNull();
    expect(mysqlStatement(template)).toBeNull();
  });
});

describe("indexAdvice()", () => {
  const scanned = { table: "public.orders", rows: 234_891, columns: ["user_id"], indexed: ["id"], concurrently: true };
  it.each([
    [scanned, "CREATE INDEX CONCURRENTLY ON public.orders (user_id)"],
    [{ ...scanned, columns: ["a", "b", "c", "d"] }, "CREATE INDEX CONCURRENTLY ON public.orders (a, b, c)"],
    [{ ...scanned, table: "orders", concurrently: false }, "CREATE INDEX idx_orders_user_id ON orders (user_id)"],
    [{ ...scanned, rows: 400 }, null],
    [{ ...scanned, columns: [] }, null],
    [{ ...scanned, indexed: ["id", "user_id"] }, null],
  ])("advises for %o", (given, advice) => {
    expect(indexAdvice(given)).toBe(advice);
  });
});
