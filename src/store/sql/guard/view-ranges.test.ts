import duckdb from "@duckdb/node-bindings";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Connection } from "../../engine/connection.ts";
import type { SegmentRange } from "../../segments/segment-source.ts";
import type { AstNode } from "./ast.ts";
import { viewRanges } from "./view-ranges.ts";

let connection: Connection;
beforeAll(async () => {
  connection = await Connection.open(await duckdb.open(":memory:", duckdb.create_config()));
  await connection.run("SET TimeZone = 'UTC'");
});
afterAll(() => connection.close());

const us = (text: string): number => Date.parse(`${text}Z`) * 1_000;
const margin = 60_000_000;
const trace = "0123456789abcdef0123456789abcdef";

async function rangeOf(sql: string): Promise<SegmentRange | undefined> {
  const [row] = await connection.query("SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true) AS tree", [sql]);
  const tree = JSON.parse(String(row?.["tree"])) as { statements: { node: AstNode }[] };
  return (await viewRanges(connection, tree.statements[0]?.node as AstNode, ["span"]))[0]?.range;
}

const day = us("2026-01-01T00:00:00");
const next = us("2026-01-02T00:00:00");

describe("viewRanges()", () => {
  it.each<[string, SegmentRange | undefined]>([
    ["SELECT * FROM span", {}],
    ["SELECT * FROM span WHERE time > '2026-01-01'", { fromUs: day - margin }],
    [
      "SELECT * FROM span s WHERE s.time >= TIMESTAMP '2026-01-01' AND '2026-01-02' > s.time",
      { fromUs: day - margin, untilUs: next + margin },
    ],
    ["SELECT * FROM span WHERE time BETWEEN '2026-01-01' AND '2026-01-02' AND x = 3", { fromUs: day - margin, untilUs: next + margin }],
    ["SELECT * FROM span WHERE time > TIMESTAMP '2026-01-02' - INTERVAL 1 DAY", { fromUs: day - margin }],
    ["SELECT * FROM span WHERE service = 'api' AND agent_id = 'a'", { service: "api", agentId: "a" }],
    [`SELECT * FROM span WHERE '${trace}' = trace_id`, { lookup: trace }],
    ["SELECT * FROM span WHERE trace_id = 'no id'", {}],
    // A part of an OR, a negation, a column of something else: no restriction is known.
    ["SELECT * FROM span WHERE time > '2026-01-01' OR service = 'api'", {}],
    ["SELECT * FROM span WHERE NOT (time > '2026-01-01')", { untilUs: day + margin }],
    ["SELECT * FROM span WHERE NOT (time > '2026-01-01' AND service = 'api')", {}],
    ["SELECT * FROM span WHERE other.time > '2026-01-01'", {}],
    ["SELECT * FROM span WHERE time > some_column", {}],
    ["SELECT * FROM span WHERE time > to_timestamp(random())", {}],
    ["SELECT * FROM span WHERE time > (SELECT max(time) FROM host)", {}],
    ["SELECT * FROM span WHERE time > 'no time'", {}],
    // Joins are not analysed; several references to a view are combined.
    ["SELECT * FROM span JOIN host USING (agent_id) WHERE span.time > '2026-01-01'", undefined],
    ["SELECT * FROM span WHERE time > '2026-01-01' AND x IN (SELECT x FROM span)", {}],
    [
      "SELECT * FROM span WHERE time > '2026-01-02' UNION ALL SELECT * FROM span WHERE time > '2026-01-01' AND service = 'a'",
      { fromUs: day - margin },
    ],
    [
      "WITH recent AS (SELECT * FROM span WHERE time > '2026-01-01') SELECT * FROM recent WHERE time > '2026-01-02'",
      { fromUs: day - margin },
    ],
  ])("%s", async (sql, range) => {
    expect(await rangeOf(sql)).toEqual(range);
  });

  it("evaluates now()", async () => {
    const range = await rangeOf("SELECT * FROM span WHERE time > now() - INTERVAL 5 MINUTE");
    expect(Math.abs((range?.fromUs ?? 0) - (Date.now() * 1_000 - 6 * margin))).toBeLessThan(5_000_000);
  });
});
