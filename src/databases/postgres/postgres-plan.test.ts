import { describe, expect, it } from "vitest";
import { comparedColumns, readPostgresPlan } from "./postgres-plan.ts";

const scan = (more: object = {}): object => ({
  "Node Type": "Seq Scan",
  "Relation Name": "orders",
  Schema: "public",
  "Plan Rows": 44,
  ...more,
});
const plan = (root: object): string => JSON.stringify([{ Plan: { "Total Cost": 4_000.5, ...root } }]);

describe("comparedColumns()", () => {
  it.each([
    ["(user_id = $1)", ["user_id"]],
    ["(orders.user_id = $1)", ["user_id"]],
    ["((o.total > $2) AND (o.user_id = $1))", ["user_id", "total"]],
    ["((email)::text = ($1)::text)", ["email"]],
    ["(user_id = ANY ($1))", ["user_id"]],
    ["(\"order\" = 'x'::text)", ['"order"']],
    ["(created_at >= (now() - '1 day'::interval))", ["created_at"]],
    ["(lower((email)::text) = $1)", []],
    ["((a = $1) OR (b = $2))", []],
    ["(NOT done)", []],
    ["(a <> $1)", []],
    ["(a.id = b.id)", []],
    ["", []],
  ])("reads %s", (filter, columns) => {
    expect(comparedColumns(filter)).toEqual(columns);
  });
});

describe("readPostgresPlan()", () => {
  it("finds scans and indexes at any depth", () => {
    const inner = { "Node Type": "Index Scan", "Index Name": "users_pkey", "Relation Name": "users" };
    const root = {
      "Node Type": "Limit",
      Plans: [{ "Node Type": "Nested Loop", Plans: [scan({ Filter: "(orders.user_id = $1)" }), inner] }],
    };
    expect(readPostgresPlan(plan(root))).toEqual({
      scans: [{ schema: "public", table: "orders", rowsOut: 44, columns: ["user_id"] }],
      indexes: ["users_pkey"],
      cost: 4_000.5,
    });
  });

  it.each(["", "null", "[]", "{}", '[{"Plan":[]}]', '[{"Plan":null}]', "EXPLAIN"])("returns null for %j", (text) => {
    expect(readPostgresPlan(text)).toBeNull();
  });

  it("survives arbitrary bytes with bounded output", () => {
    let state = 7;
    const random = (): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return state / 2 ** 32;
    };
    const text = plan({ Plans: [scan({ Filter: "((a = $1) AND (b > $2))", Plans: Array.from({ length: 50 }, () => scan()) })] });
    for (let round = 0; round < 500; round++) {
      const bytes = Buffer.from(text);
      for (let changes = 0; changes < 3; changes++) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 128);
      const read = readPostgresPlan(bytes.toString("latin1"));
      expect(read?.scans.length ?? 0).toBeLessThanOrEqual(20);
    }
  });
});
