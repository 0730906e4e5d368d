import { describe, expect, it } from "vitest";
import { CoralError } from "../../../base/errors.ts";
import { seededRandom } from "../../store.fixture.ts";
import type { Expression, Matching, Timing } from "./ast.ts";
import { parsePromql } from "./parse.ts";

function timing({ offsetMs, at }: Timing): string {
  return `${offsetMs === 0 ? "" : ` offset ${offsetMs}`}${at === undefined ? "" : ` @ ${at}`}`;
}

function grouped({ group }: Matching): string {
  return group ? ` group_${group.side}(${group.include.join(",")})` : "";
}

/** Prints the tree fully parenthesised, so that tests can check precedence. */
function parenthesised(expression: Expression): string {
  switch (expression.type) {
    case "number":
      return String(expression.value);
    case "text":
      return JSON.stringify(expression.value);
    case "subquery":
      return `${parenthesised(expression.expression)}[${expression.rangeMs}:${expression.stepMs}]${timing(expression)}`;
    case "negation":
      return `(-${parenthesised(expression.expression)})`;
    case "selector": {
      const { matchers, rangeMs } = expression;
      const labels = matchers.map(({ label, operator, value }) => `${label}${operator}${value}`).join(",");
      return `{${labels}}${rangeMs === undefined ? "" : `[${rangeMs}]`}${timing(expression)}`;
    }
    case "call":
      return `${expression.name}(${expression.args.map(parenthesised).join(", ")})`;
    case "aggregation": {
      const { grouping, operator, parameter } = expression;
      const how = `${grouping.without ? "without" : "by"}(${grouping.labels.join(",")})`;
      return `${operator} ${how} (${parameter ? `${parenthesised(parameter)}, ` : ""}${parenthesised(expression.expression)})`;
    }
    case "binary": {
      const { operator, isBool, matching } = expression;
      const how = `${isBool ? " bool" : ""}${matching ? ` ${matching.on ? "on" : "ignoring"}(${matching.labels.join(",")})${grouped(matching)}` : ""}`;
      return `(${parenthesised(expression.left)} ${operator}${how} ${parenthesised(expression.right)})`;
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
    ["rate(m[1h30m] offset 1d)", "rate({__name__=m}[5400000] offset 86400000)"],
    ["m offset -5m", "{__name__=m} offset -300000"],
    ["1 + 2 * 3 ^ 2 ^ 2 - 4", "((1 + (2 * (3 ^ (2 ^ 2)))) - 4)"],
    ["-2 ^ 2", "(-(2 ^ 2))"],
    ["-a ^ b", "(-({__name__=a} ^ {__name__=b}))"],
    ["a - -2 ^ 2", "({__name__=a} - (-(2 ^ 2)))"],
    ["-a * b", "((-{__name__=a}) * {__name__=b})"],
    ["2 ^ -1", "(2 ^ -1)"],
    ["1 -2", "(1 - 2)"],
    ["a + b offset 5m", "({__name__=a} + {__name__=b} offset 300000)"],
    ["a + b offset 1m * c", "({__name__=a} + ({__name__=b} offset 60000 * {__name__=c}))"],
    ["a == b offset 1m + c", "({__name__=a} == ({__name__=b} offset 60000 + {__name__=c}))"],
    ["-m offset 5m", "(-{__name__=m} offset 300000)"],
    ["a or b @ 5", "({__name__=a} or {__name__=b} @ 5000)"],
    ["rate(m[5m] offset 1h @ end())", "rate({__name__=m}[300000] offset 3600000 @ end)"],
    ["m @ -1.5", "{__name__=m} @ -1500"],
    ["rate(m[300]) # seconds", "rate({__name__=m}[300000])"],
    [
      "max_over_time(rate(m[5m])[1h:1m] @ start() offset 5m)",
      "max_over_time(rate({__name__=m}[300000])[3600000:60000] offset 300000 @ start)",
    ],
    ["a + sum_over_time(b[5m:])", "({__name__=a} + sum_over_time({__name__=b}[300000:60000]))"],
    ["a * on(x) group_left(y, z) b", "({__name__=a} * on(x) group_left(y,z) {__name__=b})"],
    ["a / ignoring(x) group_right b", "({__name__=a} / ignoring(x) group_right() {__name__=b})"],
    ['label_replace(m, "a", "$1", "b", "(.*)")', 'label_replace({__name__=m}, "a", "$1", "b", "(.*)")'],
    ["count_values('v', m)", 'count_values by() ("v", {__name__=m})'],
    ["m * 5m", "({__name__=m} * 300)"],
    ["a atan2 b", "({__name__=a} atan2 {__name__=b})"],
    ["SUM BY (x) (a) AND b", "(sum by(x) ({__name__=a}) and {__name__=b})"],
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
    expect(parenthesised(parsePromql(source))).toBe(wanted);
  });

  it.each([
    ["", "the expression is empty"],
    ["m[5m]", "a range vector has no single value"],
    ["'a'", "a string alone is not a query"],
    ["rate(m)", "rate() needs a range vector such as metric[5m] as argument 1, not an instant vector"],
    ["abs(m[5m])", "abs() needs an instant vector as argument 1, not a range vector"],
    ["abs(1)", "abs() needs an instant vector as argument 1, not a scalar"],
    ["sum(m[5m])", "sum needs an instant vector, not a range vector"],
    ["sum(1)", "sum needs an instant vector, not a scalar"],
    ["topk(m)", "topk takes 2 arguments, not 1"],
    ["topk(m, m)", "topk needs a scalar as argument 1, not an instant vector"],
    ["clamp(m, 1)", "clamp() takes 3 arguments, not 2"],
    ["label_join(m)", "label_join() takes 3 or more arguments, not 1"],
    ["histogram_quantile(m, m)", "needs a scalar as argument 1, not an instant vector"],
    ["foo(m)", "unknown function foo()"],
    ["constructor(m)", "unexpected text"],
    ["histogram_count(m)", "histogram_count() is not supported"],
    ["limitk(2, m)", "limitk is not supported"],
    ["m{a=b}", "a quoted string"],
    ['m{a="b}', "at its end"],
    ['{a!="b"}', "a selector needs a metric name"],
    ["(a + b)[5m]", "a range is only allowed after a selector"],
    ["m offset 5m [5m]", "offset and @ must follow the range"],
    ["m[10m * 2]", "duration expressions are not supported"],
    ["m[0s]", "must be positive"],
    ["sum(m) offset 5m", "offset is only allowed after a selector or a subquery"],
    ["(m) @ 5", "@ is only allowed after a selector or a subquery"],
    ["m offset 5m offset 6m", "offset is set twice"],
    ["rate(m[5m:1m][5m:1m])", "a subquery needs an instant vector"],
    ["1[5m:1m]", "a subquery needs an instant vector"],
    ["-m[5m]", "a sign is only allowed on scalars and instant vectors"],
    ["1 +", "unexpected end of input"],
    ["(1", "unexpected end of input"],
    ["rate(m[$__rate_interval])", "$__rate_interval is a variable of a dashboard; write its value"],
    [`m{a=~"b"} / \${total}`, `\${total} is a variable of a dashboard`],
    ["1 2", "unexpected text"],
    ["a ; b", "unexpected text"],
    ["a + bool b", "bool is only allowed on comparisons"],
    ["1 > 2", "needs bool"],
    ["1 and a", '"and" needs instant vectors on both sides'],
    ["1 + on(x) a", "on and ignoring need instant vectors on both sides"],
    ["a and on(x) group_left b", "remove group_left"],
    ["a + on(x) group_left(x) b", 'the label "x" is in both on() and group_left()'],
    ["a + 'b'", "not a string"],
    [`${"(".repeat(1_000)}1${")".repeat(1_000)}`, "nested too deeply"],
    [`${"-".repeat(1_000)}1`, "nested too deeply"],
    ["x".repeat(5_000), "more than 4096 characters"],
  ])("rejects %.40s", (source, why) => {
    expect(() => parsePromql(source)).toThrow(why);
    expect(() => parsePromql(source)).toThrow(CoralError);
  });

  it("throws only parse errors, whatever the input", () => {
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
      "@",
      "[1h:1m]",
      "group_left",
      "#",
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
