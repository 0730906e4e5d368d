import { expect, it } from "vitest";
import type { Incident } from "../../model/incident.ts";
import { sameIncident, type Trouble } from "./same-incident.ts";

const startMs = Date.UTC(2026, 0, 5, 12);
const causeOf = (service: string, chain: string[]) => ({ service, kind: "slow", chain });

function incidentOf(entry: string, cause: ReturnType<typeof causeOf> | null): Incident {
  const symptoms = [{ service: entry }];
  return { number: 1, startedMs: startMs, symptoms, cause } as unknown as Incident;
}

const trouble = (service: string, cause: Trouble["cause"], afterMs = 0): Trouble => ({ service, cause, startedMs: startMs + afterMs });
const gateway = incidentOf("gateway", causeOf("postgres", ["gateway", "shop", "postgres"]));

it("joins services with the same root cause, whenever their symptoms begin", () => {
  expect(sameIncident(trouble("admin", causeOf("postgres", ["admin", "postgres"]), 3_600_000), [gateway], [])).toBe(gateway);
});

it("joins causal chains that include each other at the same time", () => {
  expect(sameIncident(trouble("admin", causeOf("ledger", ["admin", "ledger"]), 30_000), [gateway], [])).toBeUndefined();
  expect(sameIncident(trouble("admin", causeOf("shop", ["admin", "shop"]), 30_000), [gateway], [])).toBe(gateway);
  const through = causeOf("disk", ["admin", "postgres", "disk"]);
  expect(sameIncident(trouble("admin", through, 30_000), [gateway], [])).toBe(gateway);
  expect(sameIncident(trouble("admin", through, 600_000), [gateway], [])).toBeUndefined();
  expect(sameIncident(trouble("portal", causeOf("gateway", ["portal", "gateway"]), 30_000), [gateway], [])).toBe(gateway);
});

it("separates different causes, even at the same second", () => {
  expect(sameIncident(trouble("search", causeOf("search", ["search"])), [gateway], [])).toBeUndefined();
});

it("without a cause, joins only services that start at once and share a dependency", () => {
  const calls = [
    { service: "gateway", callee: "shop" },
    { service: "shop", callee: "postgres" },
    { service: "admin", callee: "postgres" },
    { service: "search", callee: "index" },
  ];
  const unknown = incidentOf("gateway", null);
  expect(sameIncident(trouble("admin", null, 20_000), [unknown], calls)).toBe(unknown);
  expect(sameIncident(trouble("admin", null, 120_000), [unknown], calls)).toBeUndefined();
  expect(sameIncident(trouble("search", null), [unknown], calls)).toBeUndefined();
  expect(sameIncident(trouble("shop", null), [unknown], calls)).toBe(unknown);
});
