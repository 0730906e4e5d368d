import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../../base/log.ts";
import type { Connection } from "../../engine/connection.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import type { AstNode } from "./ast.ts";
import { isPlain } from "./plain-statement.ts";
import { usedColumns } from "./used-columns.ts";

let engine: Engine;
let connection: Connection;

beforeAll(async () => {
  engine = await openEngine({ dataDirectories: [], memoryLimitBytes: 64 * 1024 ** 2, threads: 1, log: silentLogger });
  connection = await engine.connect();
});
afterAll(() => engine.close());

async function parsed(sql: string): Promise<AstNode> {
  const [row] = await connection.query("SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true) AS tree", [sql]);
  return (JSON.parse(String(row?.["tree"])) as { statements: { node: AstNode }[] }).statements[0]?.node as AstNode;
}

describe("isPlain() accepts", () => {
  it.each([
    "SELECT 1",
    "SELECT service, sum(count), max(time) FROM red WHERE time > now() - INTERVAL 1 HOUR AND service LIKE '%api%' GROUP BY ALL ORDER BY 2 DESC LIMIT 10",
    "SELECT a.x, count(DISTINCT b.y) FROM a JOIN b ON a.x = b.x AND a.z = b.z LEFT JOIN c USING (y) GROUP BY 1",
    "WITH busy AS (SELECT * FROM host WHERE cpu > 0.5) SELECT date_trunc('minute', time), avg(cpu)::DECIMAL(9,2) FROM busy GROUP BY 1",
    "SELECT CASE WHEN a IN (1, 2) THEN 'x' ELSE lower(b) END, coalesce(c, 0) FROM t UNION ALL SELECT 'a', 1",
    "DESCRIBE SELECT count(*) FROM t",
  ])("%s", async (sql) => expect(isPlain(await parsed(sql))).toBe(true));
});

describe("isPlain() sends to a process that can be killed", () => {
  it.each([
    "SELECT a FROM t WHERE a LIKE '%a%b%'",
    "SELECT a FROM t WHERE a LIKE '_a%'",
    "SELECT a FROM t WHERE a LIKE b",
    "SELECT a FROM t WHERE a ILIKE '%a%'",
    "SELECT a FROM t WHERE a GLOB '*a'",
    "SELECT regexp_matches(a, 'x') FROM t",
    "SELECT repeat('a', 10)",
    "SELECT quantile_cont(a, [0.1, 0.2]) FROM t",
    "SELECT first(a ORDER BY b) FROM t",
    "SELECT max(a, 1000) FROM t",
    "SELECT list(a) FROM t",
    "SELECT sum(a) OVER (ORDER BY b) FROM t",
    "SELECT * FROM a, b",
    "SELECT * FROM a JOIN b ON a.x < b.x",
    "SELECT * FROM a NATURAL JOIN b",
    "SELECT * FROM a WHERE x > (SELECT max(y) FROM b)",
    "SELECT count(*) FROM t GROUP BY CUBE (a, b)",
    "SELECT COLUMNS('a.*') FROM t",
    "SELECT * FROM range(10)",
    "SELECT * FROM unnest([1])",
    "SELECT a::JSON FROM t",
    "SUMMARIZE t",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
    "SELECT * FROM a JOIN a b USING (x) JOIN a c USING (x) JOIN a d USING (x) JOIN a e USING (x) JOIN a f USING (x)",
    `SELECT ${"1 + ".repeat(90)}1, ${Array.from({ length: 400 }, (_, at) => `a + ${at}`).join(", ")} FROM t`,
  ])("%s", async (sql) => expect(isPlain(await parsed(sql))).toBe(false));
});

describe("usedColumns()", () => {
  it.each([
    "SELECT * FROM host",
    "SELECT h FROM host h",
    "SELECT host FROM host",
    "SELECT #1 FROM host",
    "FROM host",
    "SELECT x FROM host AS h(x, y)",
  ])("all of %s", async (sql) => expect(usedColumns(await parsed(sql), ["host"])).toBe("all"));
  it.each([
    "SELECT 1 FROM host NATURAL JOIN agents",
    "SUMMARIZE host",
    "FROM host PIVOT (count(*) FOR a IN (1))",
    "SELECT COLUMNS('a') FROM host",
  ])("all of %s", async (sql) => expect(usedColumns(await parsed(sql), ["host", "agents"])).toBe("all"));
  it("the named ones otherwise, wherever they occur", async () => {
    const used = usedColumns(
      await parsed('SELECT h.A, max("b") FROM host h JOIN agents USING (c) WHERE D > 1 GROUP BY 1 HAVING count(e) > 1 ORDER BY f'),
      ["host"],
    );
    for (const name of ["a", "b", "c", "d", "e", "f"]) expect([name, used !== "all" && used.has(name)]).toEqual([name, true]);
    expect(used !== "all" && used.has("g")).toBe(false);
  });
});
