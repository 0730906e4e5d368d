import { describe, expect, it } from "vitest";
import { CoralError } from "../../../base/errors.ts";
import { seededRandom } from "../../store.fixture.ts";
import type { Expression } from "./ast.ts";
import { parsePromql } from "./parse.ts";

/** Written with all brackets, so that precedence can be read. */
function written(expression: Expression): string {
  switch (expression.type) {
    case "number":
      return String(expression.value);
    case "negation":
      return `(-${written(expression.expression)})`;
    case "selector": {
      const { matchers, rangeMs, offsetMs } = expression;
      const labels = matchers.map(({ label, operator, value }) => `${label}${operator}${value}`).join(",");
      return `{${labels}}${rangeMs === undefined ? "" : `[${rangeMs}]`}${offsetMs === 0 ? "" : `@${offsetMs}`}`;
    }
    case "call":
      return `${expression.name}(${expression.args.map(written).join(", ")})`;
    case "aggregation": {
      const { grouping, operator, parameter } = expression;
      const how = `${grouping.without ? "without" : "by"}(${grouping.labels.join(",")})`;
      return `${operator} ${how} (${parameter ? `${written(parameter)}, ` : ""}${written(expression.expression)})`;
    }
    case "binary": {
      const { operator, isBool, matching } = expression;
      const how = `${isBool ? " bool" : ""}${matching ? ` ${matching.on ? "on" : "ignoring"}(${matching.labels.join(",")})` : ""}`;
      return `(${written(expression.left)} ${operator}${how} ${written(expression.right)})`;
    }
  }
}

describe("parsePromql()", () => {
  it.each([
    ["up", "{__name__=up}"],
    ['up{job="a", x!="b",y=~"c|d" , z!~\'e\',}', "{__name__=up,job=a,x!=b,y=~c|d,z!~e}"],
    ['{"http.server.duration", route="/a"}', "{__name__=http.server.duration,route=/a}"],
    ['{__name__=~"http_.*"}', "{__name__=~http_.*}"],
    [String.raw`m{a="x\"y\\z\n\u00e9"}`, '{__name__=m,a=x"y\\z\né}'],
    ["m{a=`raw\\n`}", "{__name__=m,a=raw\\n}"],
    ["rate(m[5m])", "rate({__name__=m}[300000])"],
    ["rate(m[1h30m] offset 1d)", "rate({__name__=m}[5400000]@86400000)"],
    ["m offset -5m", "{__name__=m}@-300000"],
    ["1 + 2 * 3 ^ 2 ^ 2 - 4", "((1 + (2 * (3 ^ (2 ^ 2)))) - 4)"],
    ["-2 ^ 2", "(-(2 ^ 2))"],
    ["2 ^ -1", "(2 ^ (-1))"],
    ["a / b / c", "(({__name__=a} / {__name__=b}) / {__name__=c})"],
    ["a > bool 1 and b or c unless d", "((({__name__=a} > bool 1) and {__name__=b}) or ({__name__=c} unless {__name__=d}))"],
    ["a + on(x, y) b", "({__name__=a} + on(x,y) {__name__=b})"],
    ["a * ignoring(x) (b + 1)", "({__name__=a} * ignoring(x) ({__name__=b} + 1))"],
    ["sum by (a, b) (m)", "sum by(a,b) ({__name__=m})"],
    ["sum(m) by (a)", "sum by(a) ({__name__=m})"],
    ["avg without (a) (m)", "avg without(a) ({__name__=m})"],
    ["topk(3, m)", "topk by() (3, {__name__=m})"],
    ["sum", "{__name__=sum}"],
    [
      "histogram_quantile(0.95, sum by (le) (rate(m_bucket[5m])))",
      "histogram_quantile(0.95, sum by(le) (rate({__name__=m_bucket}[300000])))",
    ],
    ["0x1F + .5e1 + Inf # remark", "((31 + 5) + Infinity)"],
  ])("reads %s", (source, wanted) => {
    expect(written(parsePromql(source))).toBe(wanted);
  });

  it.each([
    ["", "it is empty"],
    ["m[5m]", "a range has no single value"],
    ["rate(m)", "needs a range"],
    ["abs(m[5m])", "takes no range"],
    ["sum(m[5m])", "takes no range"],
    ["foo(m)", "unknown function"],
    ["constructor(m)", "unknown function"],
    ["m{a=b}", "a text in quotes is expected"],
    ['{a!="b"}', "a selector needs a name"],
    ["m[5]", "a duration such as 5m is expected"],
    ["rate(m[5m:1m])", "subqueries are not supported"],
    ["(a + b)[5m]", "a range belongs to a selector"],
    ["m @ 5", "@ is not supported here"],
    ["a + on(x) group_left b", "group_left and group_right are not supported"],
    ["1 +", "a metric, a number or a function is expected"],
    ["(1", ") is expected"],
    ["1 2", "unexpected text after the expression"],
    ["a ; b", "not valid PromQL"],
    ["a + bool b", "bool belongs to comparisons"],
    [`${"(".repeat(1_000)}1${")".repeat(1_000)}`, "nested too deeply"],
    [`${"-".repeat(1_000)}1`, "nested too deeply"],
    ["x".repeat(5_000), "more than 4096 characters"],
  ])("refuses %.40s", (source, why) => {
    expect(() => parsePromql(source)).toThrow(why);
    expect(() => parsePromql(source)).toThrow(CoralError);
  });

  it("never fails otherwise than by saying what is wrong", () => {
    const random = seededRandom(5);
    const parts = [
      "sum",
      "by",
      "(",
      ")",
      "{",
      "}",
      "[5m]",
      "rate",
      "m",
      '"x"',
      "=",
      "=~",
      ",",
      "1",
      "+",
      "-",
      "^",
      " ",
      "offset",
      "5m",
      "and",
      "'",
      "\\",
      "on",
      "é",
    ];
    for (let round = 0; round < 20_000; round++) {
      const source = Array.from({ length: Math.floor(random() * 12) }, () => parts[Math.floor(random() * parts.length)]).join("");
      try {
        parsePromql(source);
      } catch (error) {
        expect(error).toBeInstanceOf(CoralError);
      }
    }
  });
});
