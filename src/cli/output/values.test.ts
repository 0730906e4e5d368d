import { expect, it } from "vitest";
import { sparkline } from "./sparkline.ts";
import { wantsColour } from "./style.ts";
import { ago, bytesPerSecond, latency, localTime, number, percent, plural, relative } from "./values.ts";

it.each([
  [null, null],
  [undefined, null],
  [0, "0%"],
  [0.0001, "<0.1%"],
  [0.004, "0.4%"],
  [0.0996, "10%"],
  [0.237, "24%"],
  [1, "100%"],
])("percent(%j) is %j", (ratio, text) => {
  expect(percent(ratio)).toBe(text);
});

it.each([
  [null, null],
  [0, "0µs"],
  [85.4, "85µs"],
  [999.4, "999µs"],
  [999.6, "1.0ms"],
  [9_949, "9.9ms"],
  [9_960, "10ms"],
  [340_000, "340ms"],
  [999_600, "1.0s"],
  [2_500_000, "2.5s"],
  [4_000_000_000, "4,000s"],
])("latency(%j) is %j", (us, text) => {
  expect(latency(us)).toBe(text);
});

it("prints times relative to now", () => {
  const nowMs = Date.parse("2026-03-01T12:00:00Z");
  expect(ago(200)).toBe("now");
  expect(ago(65_000)).toBe("1m 5s ago");
  expect(ago(null)).toBeNull();
  expect(relative("2026-03-01T13:30:00Z", nowMs)).toBe("in 1h 30m");
  expect(relative("2026-03-01T11:59:30Z", nowMs)).toBe("30s ago");
  expect(relative("nonsense", nowMs)).toBe("nonsense");
  expect(localTime("2026-03-01T12:00:00Z", nowMs)).toMatch(/^\d\d:\d\d:\d\d$/);
  expect(localTime("2025-01-05T12:00:00Z", nowMs)).toMatch(/^2025-01-05 \d\d:\d\d:\d\d$/);
});

it("numbers are short", () => {
  expect([0, 7, 0.256, 3.14159, 42.42, 1234.5].map(number)).toEqual(["0", "7", "0.26", "3.14", "42.4", "1235"]);
  expect(bytesPerSecond(2048)).toBe("2.00 KiB/s");
  expect([plural(1, "row"), plural(2, "row")]).toEqual(["1 row", "2 rows"]);
});

it("sparkline() scales to the ceiling, shows gaps and survives odd values", () => {
  expect(sparkline([0, 0.5, 1, null, 0.25])).toBe("▁▅█ ▃");
  expect(sparkline([2, 4, 8], 1)).toBe("▃▅█");
  expect(sparkline([0, 0], 0)).toBe("▁▁");
  expect(sparkline([Number.NaN, -1])).toBe(" ▁");
  expect(sparkline([])).toBe("");
});

it.each([
  [true, {}, false, true],
  [false, {}, false, false],
  [true, { NO_COLOR: "1" }, false, false],
  [true, { NO_COLOR: "" }, false, true],
  [true, { TERM: "dumb" }, false, false],
  [true, {}, true, false],
  [false, { CLICOLOR_FORCE: "1" }, false, true],
  [false, { CLICOLOR_FORCE: "0" }, false, false],
  [true, { CLICOLOR_FORCE: "1", NO_COLOR: "1" }, false, false],
])("wantsColour() on terminal %j with %j and --no-color %j is %j", (isTTY, env, flag, expected) => {
  expect(wantsColour({ isTTY }, env, flag)).toBe(expected);
});
