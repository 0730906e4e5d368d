import { expect, it } from "vitest";
import type { OpenIncidents } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { plainStyle } from "../../output/style.ts";
import { openIncidentsLine } from "./open-incidents-line.ts";

const print = { style: plainStyle, commands: (text: string) => text } as Printer;
const nowMs = new Date(2026, 0, 5, 22, 30).getTime();
const iso = (agoMs: number): string => new Date(nowMs - agoMs).toISOString();
const worst: OpenIncidents["worst"] = {
  ...{ id: "inc-7", severity: "critical", since: iso(29 * 60_000), endedAt: null, service: "api", measure: "errors", now: 0.34 },
};
const lineOf = (change: Partial<OpenIncidents["worst"]>, open = 1): string[] =>
  openIncidentsLine({ open, worst: { ...worst, ...change } }, print, nowMs);

it("names the worst open incident, its start, and the command that shows it", () => {
  expect(lineOf({})).toEqual(["1 open incident: api fails 34% since 22:01 (coral incidents show inc-7)"]);
  expect(lineOf({}, 3)).toEqual(["3 open incidents, worst: api fails 34% since 22:01 (coral incidents)"]);
  expect(lineOf({ measure: "latency", now: 300_000 })).toEqual(["1 open incident: api is slow since 22:01 (coral incidents show inc-7)"]);
  expect(lineOf({ measure: "down", now: null })).toEqual(["1 open incident: api is down since 22:01 (coral incidents show inc-7)"]);
  expect(lineOf({ endedAt: iso(60_000) })).toEqual(["1 open incident: api recovering since 22:29 (coral incidents show inc-7)"]);
  expect(lineOf({ since: iso(50 * 3_600_000) })).toEqual(["1 open incident: api fails 34% for 2d 2h (coral incidents show inc-7)"]);
});

it("fits 80 columns for any service name, and is absent without incidents", () => {
  for (const since of [worst.since, iso(500 * 3_600_000)])
    for (const open of [1, 12])
      for (const change of [{ endedAt: since }, { measure: "latency" as const }, {}]) {
        const [line = ""] = lineOf({ ...change, since, service: "checkout-service-of-the-northern-shops", id: "inc-12345" }, open);
        expect(line.length).toBeLessThanOrEqual(80);
        expect(line).toContain("check");
      }
  expect(openIncidentsLine(undefined, print, nowMs)).toEqual([]);
});
