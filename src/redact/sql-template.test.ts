import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { type SqlTemplateOptions, sqlTemplate } from "./sql-template.ts";

const mysql: SqlTemplateOptions = { dialect: "mysql" };

describe("sqlTemplate()", () => {
  it.each<[string, string, string, SqlTemplateOptions?]>([
    ["SELECT * FROM users WHERE id = 42 AND name='bob' -- x", "SELECT", "SELECT * FROM users WHERE id = ? AND name = ?"],
    ["select  a,b\n from t\twhere c=-5", "SELECT", "select a, b from t where c = ?"],
    ["SELECT a FROM t WHERE id IN (1, -2, +3, - 4, -.5)", "SELECT", "SELECT a FROM t WHERE id IN (?)"],
    ["INSERT INTO t VALUES (-1, -2.5), (3, -4)", "INSERT", "INSERT INTO t VALUES (?)"],
    ["SELECT -5, -a, a -5, a - 5 LIMIT -1", "SELECT", "SELECT ?, -a, a -?, a - ? LIMIT ?"],
    ["SELECT a WHERE x BETWEEN -9 AND -3 AND y = - 5 OR z>-1", "SELECT", "SELECT a WHERE x BETWEEN ? AND ? AND y = ? OR z > ?"],
    ["UPDATE t SET a = CASE WHEN -1 < b THEN -2 ELSE +3 END", "UPDATE", "UPDATE t SET a = CASE WHEN ? < b THEN ? ELSE ? END"],
    ["SELECT 2*-5, f(-1), a[-1], (b) -1, 'x' -1", "SELECT", "SELECT ?*?, f(?), a[?], (b) -?, ? -?"],
    ["SELECT a FROM t WHERE x = --5\n 7", "SELECT", "SELECT a FROM t WHERE x = ?"],
    ['SELECT "jane@example.com", "078-05-1120" FROM "T"', "SELECT", 'SELECT {id}, {id} FROM "T"'],
    ["SELECT 'it''s', 'a' 'b'", "SELECT", "SELECT ?, ?"],
    ["SELECT E'a\\'b', e'x', N'y', B'01', X'ff', U&'d'", "SELECT", "SELECT ?, ?, ?, ?, ?, U&?"],
    ["SELECT $$a$$, $tag$ it's $$ $tag$, $1, $2::int", "SELECT", "SELECT ?, ?, ?, ?::int"],
    ["SELECT .5, 1e-5, 1.5E+10, 0x1F, 1_000, t1.c2", "SELECT", "SELECT ?, ?, ?, ?, ?, t1.c2"],
    ["SELECT DATE '2024-01-01', TRUE, NULL", "SELECT", "SELECT DATE ?, TRUE, NULL"],
    ["SELECT a FROM t WHERE id IN (1,2, 3) AND b in('x')", "SELECT", "SELECT a FROM t WHERE id IN (?) AND b in (?)"],
    ["SELECT a FROM t WHERE (a,b) IN ((1,2),(3,4)) LIMIT 10", "SELECT", "SELECT a FROM t WHERE (a, b) IN ((?)) LIMIT ?"],
    ["SELECT a FROM t WHERE id IN (SELECT b FROM c)", "SELECT", "SELECT a FROM t WHERE id IN (SELECT b FROM c)"],
    ["SELECT ARRAY[1,2,3], a->>'k', b::text, count(*), t.*", "SELECT", "SELECT ARRAY[?], a->>?, b::text, count(*), t.*"],
    ["INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL), (3, 4) RETURNING id", "INSERT", "INSERT INTO t (a, b) VALUES (?) RETURNING id"],
    ["INSERT INTO t VALUES (now(), 1), (now(), 2)", "INSERT", "INSERT INTO t VALUES (now(), ?)"],
    ["INSERT INTO t VALUES (?, ?, DEFAULT)", "INSERT", "INSERT INTO t VALUES (?)"],
    [
      "UPDATE pgbench_accounts SET abalance = abalance + -3112 WHERE aid = 8",
      "UPDATE",
      "UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?",
    ],
    [
      "WITH x AS (DELETE FROM a RETURNING *) INSERT INTO y SELECT * FROM x",
      "INSERT",
      "WITH x AS (DELETE FROM a RETURNING *) INSERT INTO y SELECT * FROM x",
    ],
    ["(SELECT 1) UNION (SELECT 2)", "SELECT", "(SELECT ?) UNION (SELECT ?)"],
    ["BEGIN; UPDATE t SET x=x+1 WHERE id=:id; COMMIT;", "BEGIN", "BEGIN; UPDATE t SET x = x+? WHERE id = ?; COMMIT"],
    ["SELECT /* a /* nested */ secret */ 1", "SELECT", "SELECT ?"],
    ['SELECT "Na""me" FROM "T"', "SELECT", 'SELECT "Na""me" FROM "T"'],
    ["SAVEPOINT sp_8f3a2b1c_20241105123", "SAVEPOINT", "SAVEPOINT {id}"],
    ["hello world", "", "unknown"],
    ["", "", "unknown"],
    ["SELECT 'it\\'s', \"str\", `col` # comment", "SELECT", "SELECT ?, ?, `col`", mysql],
    ["SELECT 5--1, 6 -- secret", "SELECT", "SELECT ?-?, ?", mysql],
    ["/*!40101 SET NAMES utf8 */", "SET", "SET NAMES utf8", mysql],
    ["SELECT _utf8mb4'abc', @@version, @x := 5", "SELECT", "SELECT ?, @@version, @x := ?", mysql],
    ["SELECT /* secret */ $id FROM t", "SELECT", "SELECT $id FROM t", mysql],
    ["SELECT 'a\\', 'b'", "SELECT", "SELECT ?, ?", { dialect: "mysql", hasBackslashEscapes: false }],
  ])("names %j", (text, verb, template, options) => {
    expect(sqlTemplate(text, options)).toEqual({ verb, template });
  });

  it("ends where the meaning of a backslash is unknown", () => {
    expect(sqlTemplate("SELECT 'C:\\', 'secret', 1").template).toBe("SELECT ?…");
  });

  it("drops the partial word at the end of truncated text", () => {
    expect(sqlTemplate("SELECT name, passw", { isCut: true }).template).toBe("SELECT name,…");
    expect(sqlTemplate("SELECT name FROM t WHERE a = 'secr", { isCut: true }).template).toBe("SELECT name FROM t WHERE a = ?…");
    expect(sqlTemplate("SELECT $ta").template).toBe("SELECT ?…");
  });

  it("never exceeds the requested length", () => {
    const template = sqlTemplate(`SELECT ${"column_name, ".repeat(50)} x`, { maxLength: 80 }).template;
    expect(template).toHaveLength(80);
    expect(template.endsWith("…")).toBe(true);
  });

  it("writes no control characters", () => {
    expect(sqlTemplate('SELECT "a\u001b[31mb\nc"').template).toBe('SELECT "a [31mb c"');
  });

  it("leaks no literal, wherever the text is truncated", () => {
    const random = new SeededRandom(41);
    for (let round = 0; round < 4000; round++) {
      const dialect = random.pick(["postgres", "mysql"] as const);
      const text = statementWithSecrets(random, dialect);
      const cut = random.below(3) === 0 ? text.length : random.below(text.length + 1);
      const { template, verb } = sqlTemplate(text.slice(0, cut), { dialect, isCut: random.below(2) === 0, maxLength: 400 });
      expect(`${verb} ${template}`, text.slice(0, cut)).not.toMatch(/zq|7731/i);
    }
  });

  it("survives any text", () => {
    const random = new SeededRandom(42);
    const parts = [
      "'",
      '"',
      "$$",
      "$a$",
      "(",
      ")",
      "/*",
      "*/",
      "--",
      "\n",
      "\\",
      "IN",
      "VALUES",
      ",",
      "x",
      "1",
      ";",
      ".",
      "`",
      "[",
      "]",
      "-",
      "E'",
      "#",
      "é",
      "\0",
    ];
    for (let round = 0; round < 3000; round++) {
      const text = Array.from({ length: random.below(60) }, () => random.pick(parts)).join(random.pick(["", " "]));
      for (const dialect of ["postgres", "mysql"] as const) {
        expect(sqlTemplate(text, { dialect, isCut: random.below(2) === 0 }).template.length).toBeLessThanOrEqual(201);
      }
    }
  });
});

/** Every literal contains `zq` or 7731, and nothing else does. */
function statementWithSecrets(random: SeededRandom, dialect: "postgres" | "mysql"): string {
  const text = () => random.pick(["zq", "a zq", "zq; DROP", "zq -- x", "zq /* y", "(zq", "zq)", "zq $1", "zq,zq", "1 zq"]);
  const both = [
    () => `'${text()}'`,
    () => `'it''s ${text()}'`,
    () => "7731",
    () => "-7731.7731e-7731",
    () => "0x7731",
    () => `X'7731'`,
    () => `'${text()}' '${text()}'`,
    () => `/* ${text().replace("/*", "")} */ 1`,
    () => `-- ${text()}\n 1`,
  ];
  const own =
    dialect === "postgres"
      ? [
          () => `E'a\\'${text()}'`,
          () => `E'\\\\${text()}'`,
          () => `'a\\\\${text()}'`,
          () => `'a\\' || '${text()}'`,
          () => `$$${text().replaceAll("$", "")}$$`,
          () => `$t1$ '${text()} $$ ' $t1$`,
          () => `/* /* zq */ ${text().replace("/*", "")} */ 1`,
          () => `U&'${text()}'`,
        ]
      : [
          () => `'a\\'${text()}'`,
          () => `"${text()}"`,
          () => `"a\\"'${text()}"`,
          () => `# ${text()}\n 1`,
          () => `_utf8'${text()}'`,
          () => `'\\\\' 'zq'`,
        ];
  const literal = () => random.pick([...both, ...own])();
  const list = () => Array.from({ length: 1 + random.below(4) }, literal).join(random.pick([",", ", ", " ,"]));
  const shapes = [
    () => `SELECT a, ${list()} FROM t WHERE b = ${literal()} AND c IN (${list()}) LIMIT ${literal()}`,
    () =>
      `INSERT INTO t (a, b) VALUES (${list()}), (${list()}), (f(${literal()}), ${literal()}) ON CONFLICT (a) DO UPDATE SET b=${literal()}`,
    () => `UPDATE t SET a=${literal()}, b = b + ${literal()} WHERE c=${literal()};`,
    () => `CALL p(${list()}, (${list()}), ARRAY[${list()}]); SELECT ${literal()}`,
    () => `CREATE USER bob IDENTIFIED BY ${literal()}`,
  ];
  return random.pick(shapes)();
}
