import { describe, expect, it } from "vitest";
import { comparedColumns, readMysqlPlan } from "./mysql-plan.ts";

describe("comparedColumns()", () => {
  it.each([
    ["orders.user_id = '1'", ["user_id"]],
    ["`shop`.`orders`.`user_id` = '1' and `shop`.`orders`.`total` > '1'", ["user_id", "total"]],
    ["orders.total >= 5 and orders.state = 'x'", ["state", "total"]],
    ["a.id = b.id", []],
    ["orders.a = '1' or orders.b = '1'", []],
    ["lcase(orders.email) = 'x'", []],
  ])("reads %s", (condition, columns) => {
    expect(comparedColumns(condition)).toEqual(columns);
  });
});

describe("readMysqlPlan()", () => {
  it.each([
    [
      "MariaDB 10",
      {
        query_block: {
          select_id: 1,
          table: { table_name: "orders", access_type: "ALL", rows: 199_000, attached_condition: "orders.user_id = '1'" },
        },
      },
    ],
    [
      "MariaDB 11",
      {
        query_block: {
          cost: 30,
          nested_loop: [{ table: { table_name: "orders", access_type: "ALL", rows: 199_000, attached_condition: "orders.user_id = '1'" } }],
        },
      },
    ],
    [
      "MySQL 8",
      {
        query_block: {
          cost_info: { query_cost: "20000.1" },
          ordering_operation: {
            table: {
              table_name: "orders",
              access_type: "ALL",
              rows_examined_per_scan: 199_000,
              attached_condition: "(`shop`.`orders`.`user_id` = '1')",
            },
          },
        },
      },
    ],
  ])("finds the scan in a plan of %s", (_, plan) => {
    expect(readMysqlPlan(JSON.stringify(plan))?.scans).toEqual([{ table: "orders", rows: 199_000, columns: ["user_id"] }]);
  });

  it("finds indexes, and returns null for text that is not a plan", () => {
    const plan = { query_block: { table: { table_name: "orders", access_type: "ref", key: "by_email" } } };
    expect(readMysqlPlan(JSON.stringify(plan))).toEqual({ scans: [], indexes: ["by_email"], cost: null });
    for (const text of ["", "null", "[]", "{}", '{"query_block":3}']) expect(readMysqlPlan(text)).toBeNull();
  });
});
