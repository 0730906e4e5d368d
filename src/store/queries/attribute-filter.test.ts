import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AttributeFilter } from "../../model/traces.ts";
import { attributeCondition } from "./attribute-filter.ts";
import { queryTraces } from "./query-traces.ts";
import { openStoredSpans, type StoredSpans } from "./stored-spans.fixture.ts";

let spans: StoredSpans;
beforeAll(async () => {
  spans = await openStoredSpans();
  const attributes = (value: object): string => JSON.stringify(value);
  await spans.add([
    { trace: "1", id: "1", atUs: 1_000, http_status_code: 500, attributes: attributes({ "user.id": 42, tags: ["a", "b"], ok: true }) },
    // Two values for one attribute: the column holds the first.
    { trace: "2", id: "1", atUs: 2_000, http_status_code: 200, attributes: attributes({ "http.status_code": 503, "user.id": "42" }) },
    { trace: "3", id: "1", atUs: 3_000, resource: attributes({ "k8s.pod.name": "shop-1", "user.id": 7 }), kind: "server" },
    { trace: "4", id: "1", atUs: 4_000, attributes: attributes({ "user.id": 42.5, 'odd"/~name': "x", note: '"user.id":1' }) },
    // Both attributes exist, but in different spans.
    { trace: "5", id: "1", atUs: 5_000, http_status_code: 404 },
    { trace: "5", id: "2", parent: "1", atUs: 5_000, attributes: attributes({ "user.id": 1_000 }) },
  ]);
});
afterAll(() => spans[Symbol.asyncDispose]());

async function found(...where: AttributeFilter[]): Promise<number[]> {
  const { rows } = await queryTraces(spans.store, {
    ...{ error: false, sinceMs: 3_600_000, nowMs: spans.clock.wall, order: "newest", limit: 20, where },
  });
  return rows.map(({ traceId }) => Number.parseInt(traceId, 16)).sort();
}

describe("attributeCondition()", () => {
  it.each<[string, AttributeFilter["operator"], string, number[]]>([
    ["http.status_code", "=", "500", [1]],
    ["http.response.status_code", "=", "500", [1]],
    ["http_status_code", "=", "500", [1]],
    ["http.status_code", ">=", "500", [1, 2]],
    ["http.status_code", "<", "500", [5]],
    ["http.response.status_code", "=", "200", [2]],
    ["user.id", "=", "42", [1, 2]],
    ["user.id", "=", "42.0", [1, 2]],
    ["user.id", "!=", "42", [3, 4, 5]],
    ["user.id", ">", "42", [4, 5]],
    ["user.id", "<=", "7", [3]],
    ["k8s.pod.name", "~", "^shop-\\d$", [3]],
    ["k8s.pod.name", "!~", "^other", [3]],
    ["k8s.pod.name", "=", "shop-1", [3]],
    ["ok", "=", "true", [1]],
    ["tags", "~", '"b"', [1]],
    ["tags", "=", '["a","b"]', [1]],
    ["note", "=", '"user.id":1', [4]],
    ["note", "=", "user.id", []],
    ["http.status_code", "=", "none", []],
    ["kind", "=", "server", [3]],
    ['odd"/~name', "=", "x", [4]],
    ["absent", "!=", "x", []],
    ["absent", "!~", "x", []],
  ])("%s %s %s", async (name, operator, value, wanted) => {
    expect(await found({ name, operator, value })).toEqual(wanted);
  });

  it("parses JSON only of spans that contain the pair", () => {
    const { sql } = attributeCondition({ name: "k8s.pod.name", operator: "=", value: "shop-1" });
    expect(sql.indexOf("contains(attributes")).toBeLessThan(sql.indexOf("json_extract"));
    expect(attributeCondition({ name: "k8s.pod.name", operator: "!=", value: "shop-1" }).sql).not.toMatch(/^\(\(contains/);
  });

  it("requires all filters to match the same span", async () => {
    const one = { name: "user.id", operator: "=", value: "42" } as const;
    expect(await found(one, { name: "http.status_code", operator: ">=", value: "500" })).toEqual([1, 2]);
    expect(await found({ ...one, value: "1000" }, { name: "http.status_code", operator: "=", value: "404" })).toEqual([]);
  });

  it("rejects values that cannot be compared", async () => {
    await expect(found({ name: "a", operator: ">", value: "x" })).rejects.toThrow('Cannot filter by a > "x": the value is not a number');
    await expect(found({ name: "a", operator: "~", value: "(" })).rejects.toThrow('Cannot filter by a ~ "("');
  });
});
